// SPDX-License-Identifier: MIT
/*
 * Takes a network link down and up at a steady pace and reports the exact times:
 *
 *   linkflap NETDEV COUNT DOWN_US PERIOD_US
 *
 * One flap starts every PERIOD_US on an absolute clock, and the link is down for DOWN_US. The program prints
 * nothing until the last flap is over, so that printing disturbs no flap. Then it prints one line per change:
 *
 *   down|up MONOTONIC_NS_BEFORE MONOTONIC_NS_AFTER REALTIME_NS_BEFORE
 *
 * This is a separate program, because one ip command takes 60 ms in an emulated guest.
 */
#include <errno.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>

struct change {
	int up;
	int64_t before, after, wall;
};

static int64_t now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void wait_until(int64_t when)
{
	struct timespec t = { .tv_sec = when / 1000000000, .tv_nsec = when % 1000000000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

static void die(const char *what, const char *object)
{
	fprintf(stderr, "linkflap: %s %s: %s\n", what, object, strerror(errno));
	exit(1);
}

static struct change set_link(int fd, struct ifreq *req, int up)
{
	struct change c = { .up = up };

	if (up)
		req->ifr_flags |= IFF_UP;
	else
		req->ifr_flags &= ~IFF_UP;
	c.wall = now(CLOCK_REALTIME);
	c.before = now(CLOCK_MONOTONIC);
	if (ioctl(fd, SIOCSIFFLAGS, req))
		die(up ? "set up" : "set down", req->ifr_name);
	c.after = now(CLOCK_MONOTONIC);
	return c;
}

static long number(const char *text)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(text, &end, 10);
	if (errno || *end || end == text || n < 0) {
		fprintf(stderr, "linkflap: bad number %s\n", text);
		exit(2);
	}
	return n;
}

int main(int argc, char **argv)
{
	struct ifreq req = {};
	struct change *changes;
	long count, down, period;
	int64_t start;
	int fd;

	if (argc != 5) {
		fputs("usage: linkflap NETDEV COUNT DOWN_US PERIOD_US\n", stderr);
		return 2;
	}
	count = number(argv[2]);
	down = number(argv[3]);
	period = number(argv[4]);
	changes = calloc(2 * count + 1, sizeof(*changes));
	if (!changes)
		die("allocate changes for", argv[1]);
	/* The memory is written once now, so that no page fault occurs between two stamps. */
	memset(changes, 0xff, 2 * count * sizeof(*changes));

	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		die("open socket for", argv[1]);
	strncpy(req.ifr_name, argv[1], sizeof(req.ifr_name) - 1);
	if (ioctl(fd, SIOCGIFFLAGS, &req))
		die("read flags of", argv[1]);

	start = now(CLOCK_MONOTONIC);
	for (long i = 0; i < count; i++) {
		wait_until(start + i * period * 1000);
		changes[2 * i] = set_link(fd, &req, 0);
		wait_until(changes[2 * i].before + down * 1000);
		changes[2 * i + 1] = set_link(fd, &req, 1);
	}
	for (long i = 0; i < 2 * count; i++)
		printf("%s %lld %lld %lld\n", changes[i].up ? "up" : "down", (long long)changes[i].before,
		       (long long)changes[i].after, (long long)changes[i].wall);
	return 0;
}
