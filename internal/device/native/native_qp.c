//go:build linux && cgo

#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "native_lib.h"

enum { CQ_SIZE = 64, QP_SIZE = 16 };

static struct result modify_probe_qp(struct probe *p, struct ibv_qp_attr *a, int mask)
{
	int err = PROBE_CALL(p, C_MODIFY_QP, lib.modify_qp(p->qp, a, mask));

	return err ? failed(C_MODIFY_QP, err) : (struct result){ 0 };
}

struct result make_qp(struct probe *p)
{
	int ud = p->c.method == M_UD_SEND;
	struct ibv_qp_init_attr init = {
		.send_cq = p->send_cq ? p->send_cq : p->cq,
		.recv_cq = p->cq,
		.cap = { .max_send_wr = QP_SIZE,
			 .max_recv_wr = QP_SIZE,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = ud ? IBV_QPT_UD : IBV_QPT_RC,
	};
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = p->c.port,
		.pkey_index = p->c.pkey_index,
		.qkey = QKEY,
		.qp_access_flags = p->c.method == M_RC_WRITE ? IBV_ACCESS_REMOTE_WRITE : 0,
	};

	p->qp = PROBE_CALL(p, C_CREATE_QP, lib.create_qp(p->pd, &init));
	if (!p->qp)
		return failed(C_CREATE_QP, errno);
	return modify_probe_qp(p, &a,
			       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

struct result drop_qp(struct probe *p)
{
	int err = p->qp ? PROBE_CALL(p, C_DESTROY_QP, lib.destroy_qp(p->qp)) : 0;

	p->qp = NULL;
	return err ? failed(C_DESTROY_QP, err) : (struct result){ 0 };
}

// ack_timeout returns the exponent n of the local ACK timeout, 4.096 us << n. A device may take
// four times that (InfiniBand specification, 9.7.6.1.3). The device's own retries must end before
// the round's deadline; otherwise a broken path would look like a lost completion.
static uint8_t ack_timeout(const struct probe *p, int tries)
{
	uint8_t n = 1;

	while (n < 20 && (4096LL << (n + 1)) * tries < p->c.timeout_ns / 4)
		n++;
	return n;
}

static struct result connect_rc(struct probe *p)
{
	enum { RETRIES = 3 };
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = p->qp->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = own_address(p),
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.timeout = ack_timeout(p, RETRIES + 1),
		.retry_cnt = RETRIES,
		.max_rd_atomic = 1,
	};
	struct result r =
		modify_probe_qp(p, &rtr,
				IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);

	if (r.err)
		return r;
	return modify_probe_qp(p, &rts,
			       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static struct result connect_ud(struct probe *p)
{
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR }, rts = { .qp_state = IBV_QPS_RTS };
	struct result r = modify_probe_qp(p, &rtr, IBV_QP_STATE);

	if (!r.err)
		r = modify_probe_qp(p, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN);
	if (r.err)
		return r;
	// Create one handle now, as a check: many devices have UD queue pairs but no address handles.
	r = hold_address(p);
	if (!r.err && !p->c.keep_handle)
		r = drop_address(p);
	if (r.err)
		return r;
	p->buffer = mmap(NULL, MR_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
			 -1, 0);
	if (p->buffer == MAP_FAILED) {
		p->buffer = NULL;
		return failed(C_REG_MR, errno);
	}
	p->mr = PROBE_CALL(p, C_REG_MR, lib.reg_mr(p->pd, p->buffer, MR_SIZE, IBV_ACCESS_LOCAL_WRITE));
	if (!p->mr)
		return failed(C_REG_MR, errno);
	return fill_receives(p);
}

static struct result make_queues(struct probe *p)
{
	int err;

	p->pd = PROBE_CALL(p, C_ALLOC_PD, lib.alloc_pd(p->d->ctx));
	if (!p->pd)
		return failed(C_ALLOC_PD, errno);
	p->channel = PROBE_CALL(p, C_CREATE_COMP_CHANNEL, lib.create_comp_channel(p->d->ctx));
	if (!p->channel)
		return failed(C_CREATE_COMP_CHANNEL, errno);
	err = set_nonblocking(p->channel->fd);
	if (err)
		return failed(C_CREATE_COMP_CHANNEL, err);
	p->cq = PROBE_CALL(p, C_CREATE_CQ, lib.create_cq(p->d->ctx, CQ_SIZE, p, p->channel, p->c.vector));
	if (!p->cq)
		return failed(C_CREATE_CQ, errno);
	if (p->c.method == M_UD_SEND) {
		p->send_cq =
			PROBE_CALL(p, C_CREATE_CQ, lib.create_cq(p->d->ctx, CQ_SIZE, p, NULL, p->c.vector));
		if (!p->send_cq)
			return failed(C_CREATE_CQ, errno);
	}
	// Never arm for solicited completions only: some drivers do not treat flush errors as solicited.
	err = PROBE_CALL(p, C_REQ_NOTIFY_CQ, ibv_req_notify_cq(p->cq, 0));
	return err ? failed(C_REQ_NOTIFY_CQ, err) : (struct result){ 0 };
}

struct result prepare_flush(struct probe *p)
{
	// siw refuses a receive without a scatter element. An element of length 0 needs no memory region.
	struct ibv_sge nothing = { 0 };
	struct ibv_recv_wr wr = { .wr_id = ++p->round, .sg_list = &nothing, .num_sge = 1 }, *bad;
	struct result r = make_qp(p);
	int err;

	if (!r.err) {
		err = PROBE_CALL(p, C_POST_RECV, ibv_post_recv(p->qp, &wr, &bad));
		if (err)
			r = failed(C_POST_RECV, err);
	}
	if (r.err)
		drop_qp(p); // its error is ignored, since the first error is the cause
	return r;
}

struct result native_probe_open(struct device *d, const struct probe_config *c, struct probe **out)
{
	struct probe *p = calloc(1, sizeof *p);
	struct result r;

	if (!p)
		return failed(C_CREATE_CQ, ENOMEM);
	p->d = d;
	p->c = *c;
	p->led = &d->led->probe[c->slot];
	p->ring = &d->led->rounds[c->slot];
	p->last.outcome = O_CANCELED;
	p->nudge = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = p->nudge < 0 ? failed(C_CREATE_COMP_CHANNEL, errno) : make_queues(p);
	if (!r.err)
		r = c->method == M_FLUSH ? prepare_flush(p) : make_qp(p);
	if (!r.err && c->method == M_RC_WRITE)
		r = connect_rc(p);
	if (!r.err && c->method == M_UD_SEND)
		r = connect_ud(p);
	if (r.err)
		native_probe_close(p);
	else
		*out = p;
	return r;
}

struct result native_query_qp(struct probe *p)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;
	int err = PORT_CALL(&p->d->led->evidence, C_QUERY_QP, p->c.port,
			    lib.query_qp(p->qp, &a, IBV_QP_STATE, &init));

	return err ? failed(C_QUERY_QP, err) : (struct result){ 0 };
}

// native_probe_close destroys each object after the objects that use it. Every destroy of a CQ
// waits for the acknowledgement of its events, and the destroy of a parent fails while its child
// exists.
struct result native_probe_close(struct probe *p)
{
	struct result r, handle;
	int err;

	if (p->cq)
		acknowledge(p, now());
	r = drop_qp(p);
	handle = drop_address(p);
	if (!r.err)
		r = handle;
	if (p->mr && (err = PROBE_CALL(p, C_DEREG_MR, lib.dereg_mr(p->mr))) && !r.err)
		r = failed(C_DEREG_MR, err);
	// If the queue pair or the memory region was not destroyed, the device may still write into the buffer.
	if (p->buffer && !r.err)
		munmap(p->buffer, MR_SIZE);
	if (p->send_cq && (err = PROBE_CALL(p, C_DESTROY_CQ, lib.destroy_cq(p->send_cq))) && !r.err)
		r = failed(C_DESTROY_CQ, err);
	if (p->cq && (err = PROBE_CALL(p, C_DESTROY_CQ, lib.destroy_cq(p->cq))) && !r.err)
		r = failed(C_DESTROY_CQ, err);
	if (p->channel &&
	    (err = PROBE_CALL(p, C_DESTROY_COMP_CHANNEL, lib.destroy_comp_channel(p->channel))) && !r.err)
		r = failed(C_DESTROY_COMP_CHANNEL, err);
	if (p->pd && (err = PROBE_CALL(p, C_DEALLOC_PD, lib.dealloc_pd(p->pd))) && !r.err)
		r = failed(C_DEALLOC_PD, err);
	if (p->nudge >= 0)
		close(p->nudge);
	free(p);
	return r;
}
