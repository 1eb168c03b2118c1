// The probe is compared with this program. It is the shortest C program that does
// the same round with the same time stamps. It clears the channel and posts a
// zero-length RDMA write on an RC queue pair that is connected to itself. Then it
// polls, gets the event, drains, arms, drains and acknowledges. With ud_send it
// posts a datagram to itself. It makes the address handle before the first stamp
// and destroys it after the last one, and the receive raises the event.
//
//   cqprobe DEVICE ROUNDS PACE_US rc_write|ud_send
//
// prints "wake p50 NS p99 NS ack p50 NS p99 NS total p50 NS p99 NS". Build: cc -O2 cqprobe.c -libverbs
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <infiniband/verbs.h>

#define CHECK(ok) \
	do { \
		if (!(ok)) { \
			fprintf(stderr, "cqprobe: %s: %s\n", #ok, strerror(errno)); \
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
	fprintf(stderr, "cqprobe: no device %s\n", name);
	exit(1);
}

// Returns the index of the first GID that is neither empty nor link local.
static int choose_gid(struct ibv_context *ctx, union ibv_gid *gid)
{
	static const union ibv_gid none;
	int i;

	for (i = 0; !ibv_query_gid(ctx, 1, i, gid); i++)
		if (memcmp(gid, &none, sizeof none) && gid->raw[0] != 0xfe)
			return i;
	fprintf(stderr, "cqprobe: no usable GID\n");
	exit(1);
}

enum { QKEY = 0x11111111 };

// to_itself has what a datagram needs besides its queue pair.
static struct {
	struct ibv_pd *pd;
	struct ibv_cq *sent; // for the sends, without a channel
	struct ibv_mr *mr;
	struct ibv_ah_attr own;
	struct ibv_ah *ah;
	char buffer[4096];
} to_itself;

static void receive(struct ibv_qp *qp)
{
	struct ibv_sge where = { (uintptr_t)to_itself.buffer, sizeof to_itself.buffer, to_itself.mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &where, .num_sge = 1 }, *bad;

	CHECK(!ibv_post_recv(qp, &wr, &bad));
}

static struct ibv_qp *datagrams(struct ibv_context *ctx, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.recv_cq = cq,
		.qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 }
	};
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };
	struct ibv_ah_attr *own = &to_itself.own;
	struct ibv_qp *qp;
	int i;

	CHECK(to_itself.pd = ibv_alloc_pd(ctx));
	CHECK(to_itself.sent = init.send_cq = ibv_create_cq(ctx, 64, NULL, NULL, 0));
	CHECK(to_itself.mr = ibv_reg_mr(to_itself.pd, to_itself.buffer, sizeof to_itself.buffer,
					IBV_ACCESS_LOCAL_WRITE));
	CHECK(qp = ibv_create_qp(to_itself.pd, &init));
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	a.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE));
	a.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN));
	own->is_global = 1;
	own->port_num = 1;
	own->grh.hop_limit = 64;
	own->grh.sgid_index = choose_gid(ctx, &own->grh.dgid);
	for (i = 0; i < 8; i++)
		receive(qp);
	return qp;
}

static struct ibv_qp *self_connected(struct ibv_context *ctx, struct ibv_cq *cq)
{
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 }
	};
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
				 .port_num = 1,
				 .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	struct ibv_qp *qp;

	CHECK(pd);
	qp = ibv_create_qp(pd, &init);
	CHECK(qp);
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	memset(&a, 0, sizeof a);
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = IBV_MTU_256;
	a.dest_qp_num = qp->qp_num;
	a.max_dest_rd_atomic = 1;
	a.min_rnr_timer = 12;
	a.ah_attr.is_global = 1;
	a.ah_attr.port_num = 1;
	a.ah_attr.grh.hop_limit = 64;
	a.ah_attr.grh.sgid_index = choose_gid(ctx, &a.ah_attr.grh.dgid);
	CHECK(!ibv_modify_qp(qp, &a,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	memset(&a, 0, sizeof a);
	a.qp_state = IBV_QPS_RTS;
	a.timeout = 14;
	a.retry_cnt = 3;
	a.max_rd_atomic = 1;
	CHECK(!ibv_modify_qp(qp, &a,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
	return qp;
}

struct sample {
	int64_t wake, ack, total;
};

// Removes events that came after the last round: none of them is the wake-up of
// this round.
static void clear(struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq;
	void *context;

	while (!ibv_get_cq_event(channel, &cq, &context)) {
		CHECK(!ibv_req_notify_cq(cq, 0));
		ibv_ack_cq_events(cq, 1);
	}
	CHECK(errno == EAGAIN);
}

static void drain(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(cq, 1, &wc)) > 0)
		CHECK(wc.status == IBV_WC_SUCCESS);
	CHECK(n == 0);
}

static struct sample round_trip(struct ibv_comp_channel *channel, struct ibv_qp *qp)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct pollfd p = { .fd = channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;
	int64_t start, got, drained, acked;

	if (to_itself.pd) {
		CHECK(to_itself.ah = ibv_create_ah(to_itself.pd, &to_itself.own));
		wr.opcode = IBV_WR_SEND;
		wr.wr.ud.ah = to_itself.ah;
		wr.wr.ud.remote_qpn = qp->qp_num;
		wr.wr.ud.remote_qkey = QKEY;
	}
	clear(channel);
	start = now();
	CHECK(!ibv_post_send(qp, &wr, &bad));
	CHECK(poll(&p, 1, 2000) == 1);
	CHECK(!ibv_get_cq_event(channel, &cq, &context));
	got = now();
	drain(cq);
	CHECK(!ibv_req_notify_cq(cq, 0));
	drain(cq);
	drained = now();
	ibv_ack_cq_events(cq, 1);
	acked = now();
	if (to_itself.pd) {
		drain(to_itself.sent);
		CHECK(!ibv_destroy_ah(to_itself.ah));
		receive(qp);
	}
	return (struct sample){ got - start, acked - drained, acked - start };
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static void report(const char *name, int64_t *values, int n)
{
	qsort(values, n, sizeof *values, compare);
	printf("%s p50 %lld p99 %lld ", name, (long long)values[n / 2],
	       (long long)values[(long)n * 99 / 100]);
}

int main(int argc, char **argv)
{
	int n = argc == 5 ? atoi(argv[2]) : 0, i;
	long pace = argc == 5 ? atol(argv[3]) : 0;
	struct timespec gap = { pace / 1000000, pace % 1000000 * 1000 };
	int64_t *wake, *ack, *total;
	struct ibv_comp_channel *channel;
	struct ibv_context *ctx;
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	if (n < 1) {
		fprintf(stderr, "usage: cqprobe DEVICE ROUNDS PACE_US rc_write|ud_send\n");
		return 2;
	}
	ctx = open_device(argv[1]);
	CHECK(ctx);
	channel = ibv_create_comp_channel(ctx);
	CHECK(channel);
	CHECK(!fcntl(channel->fd, F_SETFL, O_NONBLOCK));
	cq = ibv_create_cq(ctx, 64, NULL, channel, 0);
	CHECK(cq);
	qp = strcmp(argv[4], "ud_send") ? self_connected(ctx, cq) : datagrams(ctx, cq);
	CHECK(!ibv_req_notify_cq(cq, 0));
	wake = calloc(n, sizeof *wake);
	ack = calloc(n, sizeof *ack);
	total = calloc(n, sizeof *total);
	CHECK(wake && ack && total);
	for (i = 0; i < n; i++) {
		struct sample s;

		if (pace)
			nanosleep(&gap, NULL);
		s = round_trip(channel, qp);
		wake[i] = s.wake;
		ack[i] = s.ack;
		total[i] = s.total;
	}
	report("wake", wake, n);
	report("ack", ack, n);
	report("total", total, n);
	printf("\n");
	return 0;
}
