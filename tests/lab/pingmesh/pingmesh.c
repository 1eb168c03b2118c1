// SPDX-License-Identifier: MIT
/*
 * The measurement of R-Pingmesh ("R-Pingmesh: A Service-Aware RoCE Network Monitoring and Diagnostic System", SIGCOMM 2024),
 * written from its description, for comparison. It runs beside the plugin on the same devices, over the same veths, at the
 * same pace and with as many UD queue pairs, of which each has a UDP source port of its own. It sends its own packets.
 *
 *   pingmesh DEVICE GID_INDEX HOST INTERVAL_MS PATHS
 *
 * HOST is a number that no other process has. It prints "me QKEY GID QPN...", and then takes lines on stdin:
 *
 *   host HOST probe|answer QKEY GID QPN...     another process, which it probes, or only answers
 *
 * A probe is answered by two datagrams. With the stamps of completions t1, the post; t2, sent; t3, arrived at the responder;
 * t4, the first answer sent; t5, the first answer arrived, the second answer has t4 - t3, and what remains is said to be the
 * network's:
 *
 *   network RTT = (t5 - t2) - (t4 - t3)
 *
 * Soft devices have no clock, so that the stamps are those of this program when it polls the completion, as R-Pingmesh does
 * without such a clock. A probe without both answers after 500 ms has timed out. Of each it prints a line:
 *
 *   HOST PATH T1 RTT        T1 by CLOCK_REALTIME, all in ns; RTT is -1 if the probe timed out. It ends with its stdin.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define MS 1000000LL

enum {
	HOSTS = 32,
	PATHS = 4,
	DEPTH = 128,
	SLOT = 128,
	GRH = 40,
	OPEN = 64,
	MAGIC = 0x504d5348,
	TIMEOUT_MS = 500
};
enum { PROBE = 1, ACK1, ACK2 };			    /* datagrams */
enum { RECEIVE, SENT_PROBE, SENT_ACK1, SENT_ACK2 }; /* what a work request is, in the upper byte of wr_id */

struct datagram {
	uint32_t magic, from, seq;
	uint8_t type, path, zero[2];
	uint64_t delay; /* t4 - t3 */
};

struct probe {
	uint32_t seq; /* 0: none */
	int path;
	int64_t wall, t1, t2, t5, delay; /* 0: not known yet */
};

static struct host {
	int probed;
	uint32_t qkey, qpn[PATHS];
	struct ibv_ah *ah;
	uint32_t seq;
	int64_t next;
	struct probe open[OPEN];
	int64_t t3[OPEN]; /* when the probe came that is being answered */
} hosts[HOSTS];

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *ud[PATHS];
static char buffer[PATHS * DEPTH * SLOT];
static int64_t gid_index, own, paths, interval;
static const uint32_t qkey = 0x11111111;

static void die(const char *what)
{
	fprintf(stderr, "pingmesh: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int64_t read_clock(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return t.tv_sec * 1000 * MS + t.tv_nsec;
}

static uint64_t work(int kind, int path, int host, uint32_t which)
{
	return (uint64_t)kind << 56 | (uint64_t)path << 48 | (uint64_t)host << 32 | which;
}

static void post_receive(int path, uint32_t place)
{
	struct ibv_sge where = { (uintptr_t)buffer + (path * DEPTH + place) * SLOT, SLOT, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = work(RECEIVE, path, 0, place), .sg_list = &where, .num_sge = 1 },
			   *bad;

	if (ibv_post_recv(ud[path], &wr, &bad))
		die("ibv_post_recv");
}

static void send_to(int to, int path, int type, int kind, uint32_t seq, int64_t delay)
{
	struct host *h = &hosts[to];
	struct datagram m = { .magic = htobe32(MAGIC),
			      .from = htobe32(own),
			      .seq = htobe32(seq),
			      .type = type,
			      .path = path,
			      .delay = htobe64(delay) };
	struct ibv_sge what = { (uintptr_t)&m, sizeof m, 0 };
	struct ibv_send_wr wr = { .wr_id = work(kind, path, to, seq),
				  .sg_list = &what,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;

	wr.wr.ud.ah = h->ah;
	wr.wr.ud.remote_qpn = h->qpn[path];
	wr.wr.ud.remote_qkey = h->qkey;
	if (ibv_post_send(ud[path], &wr, &bad))
		die("ibv_post_send");
}

static struct probe *find(struct host *h, uint32_t seq)
{
	struct probe *p = &h->open[seq % OPEN];

	return p->seq == seq ? p : NULL;
}

static void close_probe(int host, struct probe *p, int64_t rtt)
{
	printf("%d %d %lld %lld\n", host, p->path, (long long)p->wall, (long long)rtt);
	p->seq = 0;
}

/* A probe that is polled after its answer has a negative RTT, by which the network is not blamed. */
static void close_if_known(int host, struct probe *p)
{
	int64_t rtt = (p->t5 - p->t2) - p->delay;

	if (p->t2 && p->t5 && p->delay)
		close_probe(host, p, rtt > 0 ? rtt : 0);
}

static void send_probe(int to, int64_t t)
{
	struct host *h = &hosts[to];
	uint32_t seq = ++h->seq;
	struct probe *p = &h->open[seq % OPEN];

	*p = (struct probe){ .seq = seq,
			     .path = seq % paths,
			     .wall = read_clock(CLOCK_REALTIME),
			     .t1 = read_clock(CLOCK_MONOTONIC) };
	send_to(to, p->path, PROBE, SENT_PROBE, seq, 0);
	h->next += interval + (t - h->next) / interval * interval;
}

static void take_datagram(const struct datagram *m, int64_t came)
{
	uint32_t from = be32toh(m->from), seq = be32toh(m->seq);
	struct host *h = &hosts[from % HOSTS];
	struct probe *p;

	if (be32toh(m->magic) != MAGIC || from >= HOSTS || !h->ah || m->path >= paths)
		return;
	if (m->type == PROBE) {
		h->t3[seq % OPEN] = came;
		send_to(from, m->path, ACK1, SENT_ACK1, seq, 0);
		return;
	}
	p = find(h, seq);
	if (!p)
		return; /* it timed out */
	if (m->type == ACK1)
		p->t5 = came;
	else
		p->delay = be64toh(m->delay);
	close_if_known(from, p);
}

static void take_completion(const struct ibv_wc *wc)
{
	int path = wc->wr_id >> 48 & 0xff, host = wc->wr_id >> 32 & 0xffff;
	uint32_t which = wc->wr_id;
	int64_t t = read_clock(CLOCK_MONOTONIC);
	struct probe *p;

	if (wc->status)
		die(ibv_wc_status_str(wc->status));
	switch (wc->wr_id >> 56) {
	case RECEIVE:
		if (wc->byte_len == GRH + sizeof(struct datagram))
			take_datagram((void *)(buffer + (path * DEPTH + which) * SLOT + GRH), t);
		post_receive(path, which);
		break;
	case SENT_PROBE:
		p = find(&hosts[host], which);
		if (p) {
			p->t2 = t;
			close_if_known(host, p);
		}
		break;
	case SENT_ACK1: /* now is t4 */
		send_to(host, path, ACK2, SENT_ACK2, which, t - hosts[host].t3[which % OPEN]);
		break;
	}
}

static void drain(void)
{
	struct ibv_wc wc[32];
	struct ibv_cq *ready;
	void *context;
	int n, i;

	while (!ibv_get_cq_event(channel, &ready, &context)) {
		ibv_ack_cq_events(ready, 1);
		if (ibv_req_notify_cq(cq, 0))
			die("ibv_req_notify_cq");
	}
	while ((n = ibv_poll_cq(cq, 32, wc)) > 0)
		for (i = 0; i < n; i++)
			take_completion(&wc[i]);
	if (n < 0)
		die("ibv_poll_cq");
}

/* step sends what is due, and closes what has timed out. It returns when the next step is due. */
static int64_t step(int64_t t)
{
	int64_t due = t + 50 * MS;
	int i, k;

	for (i = 0; i < HOSTS; i++) {
		struct host *h = &hosts[i];

		if (!h->probed)
			continue;
		for (k = 0; k < OPEN; k++)
			if (h->open[k].seq && t - h->open[k].t1 >= TIMEOUT_MS * MS)
				close_probe(i, &h->open[k], -1);
		if (t >= h->next)
			send_probe(i, t);
		if (h->next < due)
			due = h->next;
	}
	return due;
}

static void add_host(char *line)
{
	struct ibv_ah_attr to = { .is_global = 1,
				  .port_num = 1,
				  .grh = { .sgid_index = gid_index, .hop_limit = 64 } };
	char role[16], gid[33];
	struct host *h;
	int id, at, i, more;

	if (sscanf(line, "host %d %15s %n", &id, role, &at) != 2 || id < 0 || id >= HOSTS)
		die(line);
	h = &hosts[id];
	line += at;
	if (sscanf(line, "%x %32s%n", &h->qkey, gid, &at) != 2)
		die(line);
	for (i = 0; i < paths; i++, at += more)
		if (sscanf(line + at, "%u%n", &h->qpn[i], &more) != 1)
			die(line);
	for (i = 0; i < 16; i++)
		if (sscanf(gid + 2 * i, "%2hhx", &to.grh.dgid.raw[i]) != 1)
			die(gid);
	h->ah = ibv_create_ah(pd, &to);
	if (!h->ah)
		die("ibv_create_ah");
	h->probed = !strcmp(role, "probe");
	h->next = read_clock(CLOCK_MONOTONIC) + interval / HOSTS * id;
}

static void make_ud(int path)
{
	struct ibv_qp_init_attr init = { .send_cq = cq,
					 .recv_cq = cq,
					 .cap = { DEPTH, DEPTH, 1, 1, sizeof(struct datagram) },
					 .qp_type = IBV_QPT_UD };
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey };
	int i;

	ud[path] = ibv_create_qp(pd, &init);
	if (!ud[path] ||
	    ibv_modify_qp(ud[path], &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
		die("ibv_create_qp");
	a.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(ud[path], &a, IBV_QP_STATE))
		die("ibv_modify_qp to RTR");
	a.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(ud[path], &a, IBV_QP_STATE | IBV_QP_SQ_PSN))
		die("ibv_modify_qp to RTS");
	for (i = 0; i < DEPTH; i++)
		post_receive(path, i);
}

static void open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int i;

	for (i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	if (!ctx)
		die(name);
	pd = ibv_alloc_pd(ctx);
	channel = ibv_create_comp_channel(ctx);
	if (!pd || !channel || fcntl(channel->fd, F_SETFL, O_NONBLOCK))
		die("ibv_create_comp_channel");
	cq = ibv_create_cq(ctx, 2 * PATHS * DEPTH, NULL, channel, 0);
	mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
	if (!cq || !mr || ibv_req_notify_cq(cq, 0))
		die("ibv_create_cq");
}

static void introduce(void)
{
	union ibv_gid gid;
	int i;

	if (ibv_query_gid(ctx, 1, gid_index, &gid))
		die("ibv_query_gid");
	printf("me %x ", qkey);
	for (i = 0; i < 16; i++)
		printf("%02x", gid.raw[i]);
	for (i = 0; i < paths; i++)
		printf(" %u", ud[i]->qp_num);
	printf("\n");
}

/* take_lines adds the hosts of whole lines, and reports whether stdin goes on. */
static int take_lines(void)
{
	static char text[4096];
	static size_t have;
	ssize_t n = read(0, text + have, sizeof text - have - 1);
	char *end;

	if (n <= 0)
		return n < 0 && errno == EINTR;
	have += n;
	text[have] = 0;
	while ((end = strchr(text, '\n'))) {
		*end = 0;
		add_host(text);
		have -= end + 1 - text;
		memmove(text, end + 1, have + 1);
	}
	return 1;
}

int main(int argc, char **argv)
{
	struct pollfd fds[2] = { { .fd = 0, .events = POLLIN }, { .events = POLLIN } };
	int i;

	if (argc != 6 || (paths = atoi(argv[5])) < 1 || paths > PATHS)
		die("DEVICE GID_INDEX HOST INTERVAL_MS PATHS");
	setlinebuf(stdout);
	gid_index = atoi(argv[2]);
	own = atoi(argv[3]);
	interval = atoi(argv[4]) * MS;
	open_device(argv[1]);
	for (i = 0; i < paths; i++)
		make_ud(i);
	introduce();
	fds[1].fd = channel->fd;
	for (;;) {
		int64_t due, t;

		drain();
		due = step(read_clock(CLOCK_MONOTONIC));
		t = read_clock(CLOCK_MONOTONIC);
		if (poll(fds, 2, due > t ? (due - t + MS - 1) / MS : 0) < 0 && errno != EINTR)
			die("poll");
		if (fds[0].revents && !take_lines())
			return 0;
	}
}
