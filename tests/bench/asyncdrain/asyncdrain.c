// The asynchronous reader is compared with this program. It is the shortest C
// program that reads and acknowledges every event with the same time stamps.
//
//   asyncdrain DEVICE COUNT     prints "ready", waits for a line on standard
//                               input, reads COUNT queued events and prints
//                               "drained COUNT NS hold max NS ack max NS"; the
//                               first NS is the time to read them
//   asyncdrain DEVICE COUNT threads
//                               the same with a second thread, which sleeps:
//                               with more than one thread the kernel counts
//                               references to the file at each read, and the C
//                               library's read is a cancellation point
//   asyncdrain DEVICE           prints "ready", and then "TYPE PORT
//                               MONOTONIC_NS" of each event as it comes, until
//                               it is killed
//
// Build: cc -O2 asyncdrain.c -libverbs
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define CHECK(ok) \
	do { \
		if (!(ok)) { \
			fprintf(stderr, "asyncdrain: %s: %s\n", #ok, strerror(errno)); \
			exit(1); \
		} \
	} while (0)

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int i;

	CHECK(list);
	for (i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			return ibv_open_device(list[i]);
	fprintf(stderr, "asyncdrain: no device %s\n", name);
	exit(1);
}

struct seen {
	int64_t got, hold, ack;
};

static struct seen take(struct ibv_context *ctx, struct ibv_async_event *event)
{
	int64_t got, before, after;

	CHECK(!ibv_get_async_event(ctx, event));
	got = now();
	before = now();
	ibv_ack_async_event(event);
	after = now();
	return (struct seen){ got, after - got, after - before };
}

static void drain(struct ibv_context *ctx, long count)
{
	struct ibv_async_event event;
	int64_t start, hold = 0, ack = 0;
	long i;

	puts("ready");
	CHECK(!fflush(stdout));
	CHECK(getchar() != EOF);
	start = now();
	for (i = 0; i < count; i++) {
		struct seen s = take(ctx, &event);

		hold = s.hold > hold ? s.hold : hold;
		ack = s.ack > ack ? s.ack : ack;
	}
	printf("drained %ld %lld hold max %lld ack max %lld\n", count, (long long)(now() - start),
	       (long long)hold, (long long)ack);
}

static void follow(struct ibv_context *ctx)
{
	struct ibv_async_event event;

	CHECK(!setvbuf(stdout, NULL, _IOLBF, 0));
	puts("ready");
	for (;;) {
		struct seen s = take(ctx, &event);

		printf("%d %d %lld\n", event.event_type, event.element.port_num, (long long)s.got);
	}
}

static void *sleep_on(void *unused)
{
	for (;;)
		pause();
	return unused;
}

int main(int argc, char **argv)
{
	struct ibv_context *ctx;
	pthread_t second;

	if (argc < 2 || argc > 4) {
		fprintf(stderr, "usage: asyncdrain DEVICE [COUNT [threads]]\n");
		return 2;
	}
	if (argc == 4)
		CHECK(!pthread_create(&second, NULL, sleep_on, NULL));
	ctx = open_device(argv[1]);
	CHECK(ctx);
	if (argc > 2)
		drain(ctx, atol(argv[2]));
	else
		follow(ctx);
	return 0;
}
