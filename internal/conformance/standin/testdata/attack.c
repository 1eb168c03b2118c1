#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "standin.h"

static void tried(const char *what, int result)
{
	note("attack %s: %s", what, result < 0 ? strerrorname_np(errno) : "done");
}

static int spawned(char *program)
{
	char *argv[] = { program, NULL }, *none[] = { NULL };
	pid_t pid;

	errno = posix_spawn(&pid, program, NULL, NULL, argv, none);
	if (errno)
		return -1;
	return waitpid(pid, NULL, 0);
}

static int connected(int port)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd < 0 ? fd : connect(fd, (void *)&to, sizeof to);
}

static int raw(void)
{
	return socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
}

// The order is a port on which the test listens. The parent is the host.
void attack(void)
{
	int port = control->attack;

	control->attack = 0;
	tried("read /etc/shadow", open("/etc/shadow", O_RDONLY | O_CLOEXEC));
	tried("read the plugin's configuration", open(getenv("VERBS_STANDIN_CONF"), O_RDONLY | O_CLOEXEC));
	tried("write to /tmp", open("/tmp", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
	tried("write to /usr/lib", open("/usr/lib", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
	tried("make a device node", mknod("/dev/infiniband/own", S_IFCHR | 0600, 0));
	tried("execute /bin/sh", spawned("/bin/sh"));
	tried("trace the host", ptrace(PTRACE_SEIZE, getppid(), 0, 0));
	tried("signal the host", kill(getppid(), 0));
	tried("connect by TCP", connected(port));
	tried("open a raw socket", raw());
	tried("become another user", setresuid(65534, 65534, 65534));
	tried("mount", mount("none", "/mnt", "tmpfs", 0, ""));
}
