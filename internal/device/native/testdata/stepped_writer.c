// A worker that is stopped or killed at any instruction, for ring_steps_test.go, which compiles it with files of the native
// backend. Descriptor 3 is the memory of a ledger and 4 its doorbell. The program makes a child for each writing, and
// single-steps it. Each line of its standard input is a command, and it answers with a line:
//
//	runs FIRST N           a child is about to write N runs, the first of which has the number FIRST: "stopped"
//	round NUMBER OUTCOME   a child is about to write a round into the ring of slot 0: "stopped"
//	read                   a child is about to read the events of the table below: "stopped"
//	keep NUMBER OUTCOME    a child is about to end a trial of the probe of slot 0 that had one round: "stopped"
//	step N                 the child executes N instructions: "stopped", or "ended" if it has ended
//	finish                 the child runs to its end: "ended"
//	kill                   the child gets SIGKILL: "killed"
//
// "refused REASON" answers the first four if the kernel refuses to trace the child.
#define _GNU_SOURCE
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "../native_lib.h"

enum { MEMORY = 3, DOORBELL = 4, MOST_RUNS = 16 };

// The events that native_read finds.
static const struct {
	enum ibv_event_type type;
	int port;
} queued[] = {
	{ IBV_EVENT_PORT_ERR, 1 },    { IBV_EVENT_PORT_ERR, 1 },    { IBV_EVENT_PORT_ERR, 1 },
	{ IBV_EVENT_PORT_ACTIVE, 1 }, { IBV_EVENT_PORT_ACTIVE, 1 },
};

static unsigned taken; // of the queued events, by the child

static struct ibv_context context;
static struct device device = { .ctx = &context, .doorbell = DOORBELL };
static struct probe probe = { .d = &device };
static struct run runs[MOST_RUNS];
static int run_count;

static void die(const char *what)
{
	printf("failed: %s: %s\n", what, strerror(errno));
	exit(1);
}

// clock_gettime is in place of the C library's, which repeats itself when the kernel has set its clock meanwhile: between two
// steps of a reader it always has.
int clock_gettime(clockid_t id, struct timespec *t)
{
	static long calls;

	(void)id;
	*t = (struct timespec){ .tv_nsec = ++calls };
	return 0;
}

static int get_async_event(struct ibv_context *ctx, struct ibv_async_event *e)
{
	(void)ctx;
	if (taken == sizeof queued / sizeof *queued) {
		errno = EAGAIN;
		return -1;
	}
	e->event_type = queued[taken].type;
	e->element.port_num = queued[taken].port;
	taken++;
	return 0;
}

static void ack_async_event(struct ibv_async_event *e)
{
	(void)e;
}

// Every field of an entry follows from its number, and no two fields of any entries are equal but for the small ones.
static void number_runs(uint64_t first)
{
	int i;

	for (i = 0; i < run_count; i++) {
		uint64_t n = first + i;

		runs[i] = (struct run){ .type = IBV_EVENT_PORT_ACTIVE,
					.port = 1,
					.count = n % 5 + 1,
					.first = n * 8,
					.last = n * 8 + 1,
					.hold_sum = n * 8 + 2,
					.hold_max = n * 8 + 3,
					.ack_sum = n * 8 + 4,
					.ack_max = n * 8 + 5 };
	}
}

static void number_round(uint64_t n, int outcome)
{
	probe.last = (struct round){ .outcome = outcome,
				     .err = n % 7,
				     .call = n % 11,
				     .wc_status = n % 13,
				     .start = n * 8,
				     .wake = n * 8 + 1,
				     .get = n * 8 + 2,
				     .arm = n * 8 + 3,
				     .drain = n * 8 + 4,
				     .hold = n * 8 + 5,
				     .ack = n * 8 + 6,
				     .total = n * 8 + 7 };
}

static void write_runs(void)
{
	publish_runs(&device, runs, run_count);
}

static void write_round(void)
{
	publish_round(&probe, &probe.last);
}

static void read_events(void)
{
	if (native_read(&device, runs, MOST_RUNS, -1) < 0)
		_exit(1);
}

static void keep_trial(void)
{
	native_probe_keep(&probe);
}

// write_traced is the child.
static int write_traced(void *write_entries)
{
	if (ptrace(PTRACE_TRACEME, 0, 0, 0))
		_exit(errno);
	kill(getpid(), SIGSTOP);
	((void (*)(void))write_entries)();
	_exit(0);
}

// start makes a child that stops before it calls write_entries, and returns its PID; 0 if it cannot be traced. The child is a
// process that shares all memory: copying this program's took more time than the rest.
static pid_t start(void (*write_entries)(void))
{
	static _Alignas(16) char stack[1 << 16];
	int status;
	pid_t child;

	taken = 0;
	child = clone(write_traced, stack + sizeof stack, CLONE_VM | SIGCHLD, (void *)write_entries);
	if (child < 0)
		die("clone");
	if (waitpid(child, &status, 0) < 0)
		die("wait for the child");
	if (WIFEXITED(status)) {
		printf("refused ptrace: %s\n", strerror(WEXITSTATUS(status)));
		return 0;
	}
	if (ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_EXITKILL))
		die("have the child end with its tracer");
	puts("stopped");
	return child;
}

// go_on_until_stop resumes the child, and reports whether it has stopped after an instruction. It is false if the child has ended.
static int go_on_until_stop(pid_t child, int request)
{
	int status;

	if (ptrace(request, child, 0, 0))
		die("resume the child");
	if (waitpid(child, &status, 0) < 0)
		die("wait for the child");
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	if (WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP && request == PTRACE_SINGLESTEP)
		return 1;
	printf("failed: the child has status %#x\n", status);
	exit(1);
}

static void step(pid_t child, uint64_t instructions)
{
	for (; instructions; instructions--)
		if (!go_on_until_stop(child, PTRACE_SINGLESTEP)) {
			puts("ended");
			return;
		}
	puts("stopped");
}

static void kill_child(pid_t child)
{
	int status;

	if (kill(child, SIGKILL))
		die("kill the child");
	if (waitpid(child, &status, 0) < 0)
		die("wait for the child");
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
		printf("failed: the child has status %#x after SIGKILL\n", status);
		exit(1);
	}
	puts("killed");
}

// stay_here keeps this program and its children on one processor, which takes a fourth of the time of a step from one to the
// other and back.
static void stay_here(void)
{
	cpu_set_t here;

	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	if (sched_setaffinity(0, sizeof here, &here))
		die("choose a processor");
}

int main(void)
{
	char line[80];
	uint64_t number;
	int outcome;
	pid_t child = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	stay_here();
	device.led = mmap(NULL, sizeof *device.led, PROT_READ | PROT_WRITE, MAP_SHARED, MEMORY, 0);
	if (device.led == MAP_FAILED)
		die("map the ledger");
	device.wake = eventfd(0, EFD_NONBLOCK);
	context.async_fd = eventfd(1, EFD_NONBLOCK);
	if (device.wake < 0 || context.async_fd < 0)
		die("make an eventfd");
	device.port_types = 1 << IBV_EVENT_PORT_ACTIVE | 1 << IBV_EVENT_PORT_ERR;
	lib.get_async_event = get_async_event;
	lib.ack_async_event = ack_async_event;
	probe.led = &device.led->probe[0];
	probe.ring = &device.led->rounds[0];
	while (fgets(line, sizeof line, stdin)) {
		if (sscanf(line, "runs %" SCNu64 " %d", &number, &run_count) == 2 && run_count <= MOST_RUNS) {
			number_runs(number);
			child = start(write_runs);
		} else if (sscanf(line, "round %" SCNu64 " %d", &number, &outcome) == 2) {
			number_round(number, outcome);
			child = start(write_round);
		} else if (!strcmp(line, "read\n")) {
			child = start(read_events);
		} else if (sscanf(line, "keep %" SCNu64 " %d", &number, &outcome) == 2 &&
			   outcome < O_CANCELED) {
			number_round(number, outcome);
			memset(probe.held, 0, sizeof probe.held);
			probe.held[outcome] = 1;
			child = start(keep_trial);
		} else if (sscanf(line, "step %" SCNu64, &number) == 1) {
			step(child, number);
		} else if (!strcmp(line, "finish\n")) {
			go_on_until_stop(child, PTRACE_CONT);
			puts("ended");
		} else if (!strcmp(line, "kill\n")) {
			kill_child(child);
		} else {
			printf("failed: unknown command: %s", line);
			return 1;
		}
	}
	return 0;
}
