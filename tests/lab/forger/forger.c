// SPDX-License-Identifier: MIT
/*
 * A hostile program on a device: it sends datagrams that others made up, and writes to and reads from memory that is not its
 * own. A test leads it by lines on stdin:
 *
 *   forger DEVICE GID_INDEX
 *
 * It prints "me UD_QPN RC_QPN QKEY GID", and answers each line with one:
 *
 *   send COUNT US GID QPN QKEY HEX      the datagram of these bytes, COUNT times, one every US microseconds
 *   count COUNT US GID QPN QKEY HEX     the same, with the number of a probe (bytes 16 to 19) raised by one each time
 *   take MS                             waits so long, and has in its answer what came at its UD queue pair
 *   connect GID QPN RQ_PSN SQ_PSN       its RC queue pair, with requests that begin at SQ_PSN
 *   write BYTES ADDRESS RKEY            an RDMA WRITE; BYTES is 0 or 1. It waits for the completion.
 *   read BYTES ADDRESS RKEY             an RDMA READ
 *   reset                               the RC queue pair, which may be connected again
 *
 * The answer is "ok sent=N received=N last=HEX status=TEXT" with the counts since its start, the bytes of the last
 * datagram received and the status of the last completion of RC, or "error TEXT". Numbers are decimal, but for QKEY, ADDRESS
 * and RKEY, which are hexadecimal as the bytes are. It ends with its stdin.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

enum { DEPTH = 256, SLOT = 256, GRH = 40, LONGEST = 200, PATIENCE_MS = 10000 };
enum { RECEIVE, SENT, RC };

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_cq *cq;
static struct ibv_qp *ud, *rc;
static char buffer[DEPTH * SLOT + 8]; /* the last bytes are those that are written and read */
static const uint32_t qkey = 0x22222222;
static int gid_index;

static long sent, received;
static int rc_done;
static char last[2 * LONGEST + 1] = "-";
static const char *status = "none";

static void die(const char *what)
{
	fprintf(stderr, "forger: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void wait_us(long us)
{
	struct timespec t = { us / 1000000, us % 1000000 * 1000 };

	nanosleep(&t, NULL);
}

static void post_receive(uint32_t place)
{
	struct ibv_sge where = { (uintptr_t)buffer + place * SLOT, SLOT, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = (uint64_t)place << 8 | RECEIVE, .sg_list = &where, .num_sge = 1 },
			   *bad;

	if (ibv_post_recv(ud, &wr, &bad))
		die("ibv_post_recv");
}

static void take_datagram(const struct ibv_wc *wc)
{
	const unsigned char *m = (void *)(buffer + (wc->wr_id >> 8) * SLOT + GRH);
	uint32_t i;

	received++;
	for (i = 0; i + GRH < wc->byte_len && i < LONGEST; i++)
		sprintf(last + 2 * i, "%02x", m[i]);
	post_receive(wc->wr_id >> 8);
}

static void poll_all(void)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) > 0) {
		if ((wc.wr_id & 0xff) == RECEIVE && !wc.status)
			take_datagram(&wc);
		if ((wc.wr_id & 0xff) == RC) {
			rc_done = 1;
			status = ibv_wc_status_str(wc.status);
		}
	}
}

static const char *parse_gid(const char *text, struct ibv_ah_attr *to)
{
	int i;

	*to = (struct ibv_ah_attr){ .is_global = 1,
				    .port_num = 1,
				    .grh = { .sgid_index = gid_index, .hop_limit = 64 } };
	for (i = 0; i < 16; i++)
		if (sscanf(text + 2 * i, "%2hhx", &to->grh.dgid.raw[i]) != 1)
			return "no GID";
	return NULL;
}

enum { NUMBER = 16 }; /* where a datagram has the number of its probe */

static const char *send_line(const char *line)
{
	static unsigned char bytes[LONGEST];
	char gid[33], hex[2 * LONGEST + 1];
	long count, us, i;
	uint32_t qpn, key, size = 0;
	int at, counting = !strncmp(line, "count ", 6);
	struct ibv_ah_attr to;
	struct ibv_ah *ah;

	if (sscanf(line, "%*s %ld %ld %32s %u %x %400s", &count, &us, gid, &qpn, &key, hex) != 6 ||
	    parse_gid(gid, &to))
		return "send what?";
	while (size < LONGEST && sscanf(hex + 2 * size, "%2hhx", &bytes[size]) == 1)
		size++;
	if (counting && size < NUMBER + 4)
		return "a datagram without a number";
	ah = ibv_create_ah(pd, &to);
	if (!ah)
		return "ibv_create_ah";
	for (i = 0; i < count; i++) {
		struct ibv_sge what = { (uintptr_t)bytes, size, 0 };
		struct ibv_send_wr wr = { .wr_id = SENT,
					  .sg_list = &what,
					  .num_sge = 1,
					  .opcode = IBV_WR_SEND,
					  .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED };
		struct ibv_send_wr *bad;

		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = qpn;
		wr.wr.ud.remote_qkey = key;
		if (ibv_post_send(ud, &wr, &bad))
			return "ibv_post_send";
		sent++;
		wait_us(us);
		poll_all();
		for (at = NUMBER + 3; counting && at >= NUMBER && !++bytes[at]; at--)
			;
	}
	wait_us(100000); /* the handle is in use until the device has sent all */
	ibv_destroy_ah(ah);
	return NULL;
}

static const char *take_line(const char *line)
{
	long ms;

	if (sscanf(line, "take %ld", &ms) != 1)
		return "take how long?";
	for (; ms > 0; ms -= 10) {
		poll_all();
		wait_us(10000);
	}
	poll_all();
	return NULL;
}

static const char *reset_line(const char *line)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RESET };

	(void)line;
	return ibv_modify_qp(rc, &a, IBV_QP_STATE) ? "ibv_modify_qp to RESET" : NULL;
}

static const char *connect_line(const char *line)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_256, .min_rnr_timer = 12 };
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 3, .rnr_retry = 3, .max_rd_atomic = 1
	};
	char gid[33];

	if (sscanf(line, "connect %32s %u %u %u", gid, &rtr.dest_qp_num, &rtr.rq_psn, &rts.sq_psn) != 4 ||
	    parse_gid(gid, &rtr.ah_attr))
		return "connect with what?";
	if (ibv_modify_qp(rc, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		return "ibv_modify_qp to INIT";
	if (ibv_modify_qp(rc, &rtr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		return "ibv_modify_qp to RTR";
	if (ibv_modify_qp(rc, &rts,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		return "ibv_modify_qp to RTS";
	return NULL;
}

static const char *rdma_line(const char *line)
{
	struct ibv_sge what = { (uintptr_t)buffer + DEPTH * SLOT, 0, mr->lkey };
	struct ibv_send_wr wr = { .wr_id = RC, .sg_list = &what, .send_flags = IBV_SEND_SIGNALED }, *bad;
	char verb[8];
	int waited;

	if (sscanf(line, "%7s %u %lx %x", verb, &what.length, &wr.wr.rdma.remote_addr, &wr.wr.rdma.rkey) !=
		    4 ||
	    what.length > 8)
		return "which memory?";
	wr.opcode = !strcmp(verb, "read") ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
	wr.num_sge = what.length ? 1 : 0;
	rc_done = 0;
	status = "none";
	if (ibv_post_send(rc, &wr, &bad))
		return "ibv_post_send";
	for (waited = 0; !rc_done && waited < PATIENCE_MS; waited++) {
		wait_us(1000);
		poll_all();
	}
	return NULL;
}

static void open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int i;

	for (i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	if (!pd)
		die(name);
	cq = ibv_create_cq(ctx, 4 * DEPTH, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
	if (!cq || !mr)
		die("ibv_create_cq");
}

static void make_queues(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .cap = { DEPTH, DEPTH, 1, 1, LONGEST }, .qp_type = IBV_QPT_UD
	};
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey };
	int i;

	ud = ibv_create_qp(pd, &init);
	init.qp_type = IBV_QPT_RC;
	rc = ibv_create_qp(pd, &init);
	if (!ud || !rc || ibv_modify_qp(ud, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
		die("ibv_create_qp");
	a.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(ud, &a, IBV_QP_STATE))
		die("ibv_modify_qp to RTR");
	a.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(ud, &a, IBV_QP_STATE | IBV_QP_SQ_PSN))
		die("ibv_modify_qp to RTS");
	for (i = 0; i < DEPTH; i++)
		post_receive(i);
}

static void introduce(void)
{
	union ibv_gid gid;
	int i;

	if (ibv_query_gid(ctx, 1, gid_index, &gid))
		die("ibv_query_gid");
	printf("me %u %u %x ", ud->qp_num, rc->qp_num, qkey);
	for (i = 0; i < 16; i++)
		printf("%02x", gid.raw[i]);
	printf("\n");
}

static const struct {
	const char *begins;
	const char *(*does)(const char *line); /* what it returns has gone wrong */
} lines[] = {
	{ "send ", send_line },	 { "count ", send_line },      { "take ", take_line },
	{ "reset", reset_line }, { "connect ", connect_line }, { "write ", rdma_line },
	{ "read ", rdma_line },
};

static const char *follow(const char *line)
{
	size_t i;

	for (i = 0; i < sizeof lines / sizeof *lines; i++)
		if (!strncmp(line, lines[i].begins, strlen(lines[i].begins)))
			return lines[i].does(line);
	return "what?";
}

int main(int argc, char **argv)
{
	char line[1024];

	if (argc != 3) {
		fprintf(stderr, "usage: forger DEVICE GID_INDEX\n");
		return 2;
	}
	setlinebuf(stdout);
	gid_index = atoi(argv[2]);
	open_device(argv[1]);
	make_queues();
	introduce();
	while (fgets(line, sizeof line, stdin)) {
		const char *wrong = follow(line);

		if (wrong)
			printf("error %s: %s\n", wrong, strerror(errno));
		else
			printf("ok sent=%ld received=%ld last=%s status=%s\n", sent, received, last, status);
	}
	return 0;
}
