// SPDX-License-Identifier: MIT
/*
 * An application that does what applications should not: it leaves events unread and unacknowledged, destroys what
 * it has not acknowledged, forks with its device open, crashes and hangs. A test leads it by lines on stdin:
 *
 *   open DEVICE                          a queue pair, a completion queue and a shared receive queue on port 1
 *   read COUNT ack|hold                  async events; 0: all that are there. What is held is not acknowledged.
 *   listen                               a thread that reads and acknowledges from now on, and waits in read(2)
 *   complete COUNT ack|hold              completion events, each after a completion that this causes
 *   acknowledge events|completions COUNT of those held, the oldest first; 0: all
 *   overflow COUNT                       more completions than fit, so that COUNT events say so (not iWARP)
 *   limit                                an event of the shared receive queue (not iWARP)
 *   fail                                 the queue pair's state becomes error
 *   destroy qp|cq|srq                    in a thread of its own, whose number comes first: "thread TID". The kernel has
 *                                        destroyed the object before the answer. The thread may wait on.
 *   join                                 waits for the threads
 *   close                                destroys what is left, and closes the device
 *   fork                                 a child with all that is open; "child LINE" leads it
 *   daemon                               the process ends, and a child goes on in its place with all that is open
 *   rename NAME                          the process, in /proc/PID/comm
 *   crash, hang, exit                    at once; crash has no answer, and after hang there is none any more
 *
 * The answer to a line is one line: "error CALL: TEXT", or "ok" with the program's own counts, those since its start:
 *
 *   ok pid=12 qp=17 read=3 acked=2 held=1 completions=0 completions_acked=0 destroying=0 types=7:2,0:1
 *
 * qp is the number of the queue pair, 0 without one, and types has the events read by their IBV_EVENT number. A child
 * counts on from its parent's counts. The objects use each other not at all, so that each can be destroyed alone. With
 * RoCE the queue pair is connected with itself; with iWARP it is not, which needs a connection manager.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <infiniband/verbs.h>

enum { PATIENCE_MS = 10000, TYPES = 64, THREADS = 8, CQ_SIZE = 8, QUEUE = 512 };

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *own_cq; /* of the queue pair */
static struct ibv_qp *qp;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_qp *loop; /* causes real events of cq and srq */

static unsigned int read_of[TYPES], acked, completions, completions_acked;

/* The events that are read and not acknowledged, the oldest first. */
static struct {
	struct ibv_async_event *events;
	unsigned int count;
} held;
static struct ibv_cq *completed; /* the completion queue of completion events; it may be under destruction */

static struct destroyer {
	pthread_t thread;
	void *object;
	int (*destroy)(void *object);
	int used, err;
	pid_t tid;
	sem_t began;
	atomic_int ended;
} destroyers[THREADS];

static struct {
	pid_t pid;
	FILE *commands, *answers;
} child;

static int failed(const char *call, int err)
{
	printf("error %s: %s\n", call, strerror(abs(err))); /* siw's post verbs return -errno */
	return -1;
}

static int refused(const char *call, int result)
{
	return result ? failed(call, result) : 0;
}

static int missing(const char *call, const void *object)
{
	return object ? 0 : failed(call, errno);
}

static int is_roce(void)
{
	return ctx->device->transport_type == IBV_TRANSPORT_IB;
}

static int query_first_gid(struct ibv_ah_attr *to)
{
	static const union ibv_gid none;
	union ibv_gid gid;
	int i;

	for (i = 0; !ibv_query_gid(ctx, 1, i, &gid); i++)
		if (memcmp(&gid, &none, sizeof gid)) {
			to->grh.dgid = gid;
			to->grh.sgid_index = i;
			return 0;
		}
	return failed("ibv_query_gid", ENOENT);
}

static int initialise(struct ibv_qp *q)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
				 .port_num = 1,
				 .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	return refused(
		"ibv_modify_qp to init",
		ibv_modify_qp(q, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

static int connect_to_itself(struct ibv_qp *q)
{
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR,
				   .path_mtu = IBV_MTU_256,
				   .dest_qp_num = q->qp_num,
				   .max_dest_rd_atomic = 1,
				   .min_rnr_timer = 12,
				   .ah_attr = { .is_global = 1, .port_num = 1, .grh = { .hop_limit = 1 } } };
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 3, .max_rd_atomic = 1
	};

	if (query_first_gid(&rtr.ah_attr))
		return -1;
	if (refused("ibv_modify_qp to rtr",
		    ibv_modify_qp(q, &rtr,
				  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)))
		return -1;
	return refused("ibv_modify_qp to rts",
		       ibv_modify_qp(q, &rts,
				     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static int set_error(struct ibv_qp *q)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };

	return refused("ibv_modify_qp to error", ibv_modify_qp(q, &a, IBV_QP_STATE));
}

static int make_qp(struct ibv_qp **q, struct ibv_cq *sends, struct ibv_cq *receives, struct ibv_srq *s)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.send_cq = sends,
		.recv_cq = receives,
		.srq = s,
		.cap = { .max_send_wr = QUEUE, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 }
	};

	*q = ibv_create_qp(pd, &init);
	if (missing("ibv_create_qp", *q))
		return -1;
	return initialise(*q);
}

static int drop_qp(struct ibv_qp **q)
{
	struct ibv_qp *old = *q;

	*q = NULL;
	return old ? refused("ibv_destroy_qp", ibv_destroy_qp(old)) : 0;
}

/* A new queue pair, connected with itself, that causes events of the other objects. */
static int make_loop(struct ibv_cq *sends, struct ibv_srq *s)
{
	if (!is_roce())
		return failed("connect", EOPNOTSUPP);
	if (drop_qp(&loop) || make_qp(&loop, sends, own_cq, s))
		return -1;
	return connect_to_itself(loop);
}

static int set_nonblocking(int fd)
{
	return refused("fcntl", fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) ? errno : 0);
}

static int open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int i;

	if (missing("ibv_get_device_list", list))
		return -1;
	for (i = 0; list[i] && strcmp(ibv_get_device_name(list[i]), name); i++)
		;
	errno = ENODEV;
	ctx = list[i] ? ibv_open_device(list[i]) : NULL;
	ibv_free_device_list(list);
	return missing("ibv_open_device", ctx);
}

static int make_objects(void)
{
	struct ibv_srq_init_attr queue = { .attr = { .max_wr = 64, .max_sge = 1 } };

	pd = ibv_alloc_pd(ctx);
	if (missing("ibv_alloc_pd", pd))
		return -1;
	channel = ibv_create_comp_channel(ctx);
	if (missing("ibv_create_comp_channel", channel))
		return -1;
	own_cq = ibv_create_cq(ctx, QUEUE, NULL, NULL, 0);
	if (missing("ibv_create_cq", own_cq))
		return -1;
	cq = ibv_create_cq(ctx, CQ_SIZE, NULL, channel, 0);
	if (missing("ibv_create_cq", cq))
		return -1;
	/* The kernel gives the device's first one the number 0, which elsewhere means that there is none. */
	srq = ibv_create_srq(pd, &queue);
	if (missing("ibv_create_srq", srq) || refused("ibv_destroy_srq", ibv_destroy_srq(srq)))
		return -1;
	srq = ibv_create_srq(pd, &queue);
	if (missing("ibv_create_srq", srq))
		return -1;
	return make_qp(&qp, own_cq, own_cq, NULL);
}

static int do_open(const char *name, const char *rest)
{
	(void)rest;
	if (ctx)
		return failed("open", EBUSY);
	if (open_device(name) || make_objects() || set_nonblocking(ctx->async_fd) ||
	    set_nonblocking(channel->fd))
		return -1;
	return is_roce() ? connect_to_itself(qp) : 0;
}

static int await(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n = poll(&p, 1, PATIENCE_MS);

	if (n > 0)
		return 0;
	return failed("poll", n ? errno : ETIMEDOUT);
}

static int keep(const struct ibv_async_event *e)
{
	struct ibv_async_event *more = realloc(held.events, (held.count + 1) * sizeof *more);

	if (missing("realloc", more))
		return -1;
	held.events = more;
	held.events[held.count++] = *e;
	return 0;
}

static int do_read(const char *count, const char *how)
{
	unsigned int left = atoi(count), all = !left;
	struct ibv_async_event e;

	while (all || left) {
		if (ibv_get_async_event(ctx, &e)) {
			if (errno != EAGAIN)
				return failed("ibv_get_async_event", errno);
			if (all)
				return 0;
			if (await(ctx->async_fd))
				return -1;
			continue;
		}
		left -= !all;
		read_of[(unsigned int)e.event_type % TYPES]++;
		if (!strcmp(how, "hold")) {
			if (keep(&e))
				return -1;
			continue;
		}
		ibv_ack_async_event(&e);
		acked++;
	}
	return 0;
}

/* The receives of a queue pair in state error are completed at once. That needs no connection. */
static int flush_one(void)
{
	/* siw refuses a receive without an element. An element of length 0 needs no memory region. */
	struct ibv_sge nothing = { 0 };
	struct ibv_recv_wr wr = { .sg_list = &nothing, .num_sge = 1 }, *bad;
	struct ibv_qp *flushed;
	struct ibv_wc wc;
	int err;

	err = make_qp(&flushed, cq, cq, NULL) ||
	      refused("ibv_post_recv", ibv_post_recv(flushed, &wr, &bad)) || set_error(flushed) ||
	      await(channel->fd);
	while (!err && ibv_poll_cq(cq, 1, &wc) > 0)
		;
	return drop_qp(&flushed) || err ? -1 : 0;
}

static int do_complete(const char *count, const char *how)
{
	unsigned int left = atoi(count);
	void *context;

	for (; left; left--) {
		if (missing("complete", cq) || refused("ibv_req_notify_cq", ibv_req_notify_cq(cq, 0)) ||
		    flush_one())
			return -1;
		if (ibv_get_cq_event(channel, &completed, &context))
			return failed("ibv_get_cq_event", errno);
		completions++;
		if (!strcmp(how, "hold"))
			continue;
		ibv_ack_cq_events(completed, 1);
		completions_acked++;
	}
	return 0;
}

static int do_acknowledge(const char *what, const char *count)
{
	unsigned int n = atoi(count), i;

	if (!strcmp(what, "completions")) {
		unsigned int open = completions - completions_acked;

		n = n && n < open ? n : open;
		completions_acked += n;
		if (n)
			ibv_ack_cq_events(completed, n);
		return 0;
	}
	n = n && n < held.count ? n : held.count;
	for (i = 0; i < n; i++)
		ibv_ack_async_event(&held.events[i]);
	acked += n;
	held.count -= n;
	memmove(held.events, held.events + n, held.count * sizeof *held.events);
	return 0;
}

static int post(enum ibv_wr_opcode opcode, int count)
{
	struct ibv_send_wr wr = { .opcode = opcode, .send_flags = IBV_SEND_SIGNALED }, *bad;

	while (count-- > 0)
		if (refused("ibv_post_send", ibv_post_send(loop, &wr, &bad)))
			return -1;
	return 0;
}

static int do_overflow(const char *count, const char *rest)
{
	(void)rest;
	if (missing("overflow", cq) || make_loop(cq, NULL))
		return -1;
	return post(IBV_WR_RDMA_WRITE, cq->cqe + atoi(count));
}

static int do_limit(const char *word, const char *rest)
{
	struct ibv_srq_attr a = { .srq_limit = 6 };
	struct ibv_sge nothing = { 0 };
	struct ibv_recv_wr wr = { .sg_list = &nothing, .num_sge = 1 }, *bad;
	int i;

	(void)word;
	(void)rest;
	if (missing("limit", srq) || make_loop(own_cq, srq))
		return -1;
	for (i = 0; i < 8; i++)
		if (refused("ibv_post_srq_recv", ibv_post_srq_recv(srq, &wr, &bad)))
			return -1;
	if (refused("ibv_modify_srq", ibv_modify_srq(srq, &a, IBV_SRQ_LIMIT)))
		return -1;
	return post(IBV_WR_SEND, 4);
}

static int do_fail(const char *word, const char *rest)
{
	(void)word;
	(void)rest;
	return missing("fail", qp) || set_error(qp) ? -1 : 0;
}

static int destroy_qp(void *object)
{
	return ibv_destroy_qp(object);
}

static int destroy_cq(void *object)
{
	return ibv_destroy_cq(object);
}

static int destroy_srq(void *object)
{
	return ibv_destroy_srq(object);
}

static void *destroy(void *argument)
{
	struct destroyer *d = argument;

	d->tid = gettid();
	sem_post(&d->began);
	d->err = d->destroy(d->object);
	atomic_store(&d->ended, 1);
	return NULL;
}

/*
 * Whether a thread waits in futex(2). In a destruction nothing else does that but the wait for acknowledgements, after
 * the kernel has destroyed the object.
 */
static int waits(pid_t tid)
{
	char path[64], number[16] = "";
	FILE *f;

	snprintf(path, sizeof path, "/proc/self/task/%d/syscall", tid);
	f = fopen(path, "r");
	if (!f)
		return 0; /* it has ended */
	if (fscanf(f, "%15s", number) != 1)
		number[0] = 0;
	fclose(f);
	return number[0] >= '0' && number[0] <= '9' && atoi(number) == SYS_futex;
}

/* Waits until a thread has ended, or with asleep until it waits. */
static int await_thread(struct destroyer *d, int asleep)
{
	int left;

	for (left = PATIENCE_MS; !atomic_load(&d->ended) && !(asleep && waits(d->tid)); left--) {
		if (!left)
			return failed("destroy", ETIMEDOUT);
		usleep(1000);
	}
	if (!atomic_load(&d->ended))
		return 0;
	pthread_join(d->thread, NULL);
	sem_destroy(&d->began);
	d->used = 0;
	return refused("destroy", d->err);
}

static int start_destroyer(int (*call)(void *), void *object)
{
	struct destroyer *d = destroyers;
	int err;

	while (d < destroyers + THREADS && d->used)
		d++;
	if (d == destroyers + THREADS)
		return failed("destroy", EAGAIN);
	*d = (struct destroyer){ .used = 1, .object = object, .destroy = call };
	sem_init(&d->began, 0, 0);
	err = pthread_create(&d->thread, NULL, destroy, d);
	if (err) {
		d->used = 0;
		return failed("pthread_create", err);
	}
	while (sem_wait(&d->began))
		;
	printf("thread %d\n", d->tid);
	return await_thread(d, 1);
}

static int do_destroy(const char *what, const char *rest)
{
	void *object = !strcmp(what, "qp") ? (void *)qp : !strcmp(what, "cq") ? (void *)cq : (void *)srq;

	(void)rest;
	errno = ENOENT;
	if (missing("destroy", object) || drop_qp(&loop))
		return -1;
	if (object == qp) {
		qp = NULL;
		return start_destroyer(destroy_qp, object);
	}
	if (object == cq) {
		cq = NULL;
		return start_destroyer(destroy_cq, object);
	}
	srq = NULL;
	return start_destroyer(destroy_srq, object);
}

static int do_join(const char *word, const char *rest)
{
	struct destroyer *d;

	(void)word;
	(void)rest;
	for (d = destroyers; d < destroyers + THREADS; d++)
		if (d->used && await_thread(d, 0))
			return -1;
	return 0;
}

static int do_close(const char *word, const char *rest)
{
	int err;

	err = do_join(word, rest) || drop_qp(&loop) || drop_qp(&qp) ||
	      (srq && refused("ibv_destroy_srq", ibv_destroy_srq(srq))) ||
	      (cq && refused("ibv_destroy_cq", ibv_destroy_cq(cq))) ||
	      (own_cq && refused("ibv_destroy_cq", ibv_destroy_cq(own_cq))) ||
	      (channel && refused("ibv_destroy_comp_channel", ibv_destroy_comp_channel(channel))) ||
	      (pd && refused("ibv_dealloc_pd", ibv_dealloc_pd(pd))) ||
	      refused("ibv_close_device", ibv_close_device(ctx));
	srq = NULL;
	own_cq = cq = NULL;
	channel = NULL;
	pd = NULL;
	ctx = NULL;
	return err ? -1 : 0;
}

static int do_rename(const char *name, const char *rest)
{
	(void)rest;
	return refused("prctl", prctl(PR_SET_NAME, name) ? errno : 0);
}

static FILE *commands;

static int do_fork(const char *word, const char *rest)
{
	int to[2], from[2];

	(void)word;
	(void)rest;
	if (child.pid)
		return failed("fork", EBUSY);
	if (pipe2(to, O_CLOEXEC) || pipe2(from, O_CLOEXEC))
		return failed("pipe2", errno);
	fflush(stdout);
	child.pid = fork();
	if (child.pid < 0)
		return failed("fork", errno);
	if (!child.pid) {
		commands = fdopen(to[0], "r");
		dup2(from[1], STDOUT_FILENO);
		close(STDIN_FILENO);
		close(from[0]);
		close(to[1]); /* or it would not hear of the parent's end */
	} else {
		child.commands = fdopen(to[1], "w");
		child.answers = fdopen(from[0], "r");
		close(to[0]);
	}
	close(from[1]);
	return child.pid ? 0 : -1; /* the parent answers */
}

/* A child goes on in place of this process, as with daemon(3). */
static int do_daemon(const char *word, const char *rest)
{
	pid_t pid;

	(void)word;
	(void)rest;
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		return failed("fork", errno);
	if (pid)
		_exit(0);
	return 0; /* the child answers */
}

/* Passes a line on to the child, and its answer back. */
static int lead_child(const char *line)
{
	char answer[1024];

	errno = ECHILD;
	if (missing("child", child.pid ? &child : NULL))
		return -1;
	fputs(line, child.commands);
	fflush(child.commands);
	do {
		if (!fgets(answer, sizeof answer, child.answers)) {
			waitpid(child.pid, NULL, 0);
			child.pid = 0;
			return failed("child", ECHILD);
		}
		fputs(answer, stdout);
	} while (!strncmp(answer, "thread ", 7));
	return 0;
}

/* Reads as most applications do: in a thread that sleeps in the kernel until an event comes. */
static void *listener(void *none)
{
	struct ibv_async_event e;

	(void)none;
	while (!ibv_get_async_event(ctx, &e)) {
		__atomic_add_fetch(&read_of[(unsigned int)e.event_type % TYPES], 1, __ATOMIC_RELAXED);
		ibv_ack_async_event(&e);
		__atomic_add_fetch(&acked, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static int do_listen(const char *word, const char *rest)
{
	int flags = fcntl(ctx->async_fd, F_GETFL);
	pthread_t thread;

	(void)word;
	(void)rest;
	if (refused("fcntl", fcntl(ctx->async_fd, F_SETFL, flags & ~O_NONBLOCK) ? errno : 0))
		return -1;
	return refused("pthread_create", pthread_create(&thread, NULL, listener, NULL));
}

static void answer(void)
{
	unsigned int sum = 0, destroying = 0, i;
	const char *comma = "";

	for (i = 0; i < TYPES; i++)
		sum += read_of[i];
	for (i = 0; i < THREADS; i++)
		destroying += destroyers[i].used;
	printf("ok pid=%d qp=%u read=%u acked=%u held=%u completions=%u completions_acked=%u destroying=%u "
	       "types=",
	       getpid(), qp ? qp->qp_num : 0, sum, acked, held.count, completions, completions_acked,
	       destroying);
	for (i = 0; i < TYPES; i++)
		if (read_of[i]) {
			printf("%s%u:%u", comma, i, read_of[i]);
			comma = ",";
		}
	printf("\n");
}

static int do_end(const char *word, const char *rest)
{
	(void)word;
	(void)rest;
	answer();
	fflush(stdout);
	_exit(0);
}

static int do_hang(const char *word, const char *rest)
{
	(void)word;
	(void)rest;
	answer();
	fflush(stdout);
	while (pause()) /* which never returns 0 */
		;
	return 0;
}

static int do_crash(const char *word, const char *rest)
{
	(void)word;
	(void)rest;
	raise(SIGSEGV);
	return failed("raise", EINTR);
}

static const struct {
	const char *name;
	int arguments;
	int needs_device;
	int (*carry_out)(const char *first, const char *second);
} verbs[] = {
	{ "open", 1, 0, do_open },	   { "read", 2, 1, do_read },
	{ "complete", 2, 1, do_complete }, { "acknowledge", 2, 1, do_acknowledge },
	{ "overflow", 1, 1, do_overflow }, { "limit", 0, 1, do_limit },
	{ "fail", 0, 1, do_fail },	   { "destroy", 1, 1, do_destroy },
	{ "join", 0, 1, do_join },	   { "close", 0, 1, do_close },
	{ "fork", 0, 0, do_fork },	   { "rename", 1, 0, do_rename },
	{ "crash", 0, 0, do_crash },	   { "hang", 0, 0, do_hang },
	{ "exit", 0, 0, do_end },	   { "listen", 0, 1, do_listen },
	{ "daemon", 0, 0, do_daemon },
};

static void carry_out(const char *line)
{
	char name[16] = "", first[64] = "", second[16] = "";
	int words = sscanf(line, "%15s %63s %15s", name, first, second);
	unsigned int i;

	for (i = 0; i < sizeof verbs / sizeof *verbs; i++) {
		if (strcmp(verbs[i].name, name) || words != 1 + verbs[i].arguments)
			continue;
		if (verbs[i].needs_device && !ctx)
			failed(name, ENODEV);
		else if (!verbs[i].carry_out(first, second))
			answer();
		return;
	}
	failed("parse the line", EINVAL);
}

int main(void)
{
	char line[128];

	signal(SIGPIPE, SIG_IGN);
	commands = stdin;
	while (fgets(line, sizeof line, commands)) {
		if (!strncmp(line, "child ", 6))
			lead_child(line + 6);
		else
			carry_out(line);
		fflush(stdout);
	}
	return 0; /* the test has ended, or the parent */
}
