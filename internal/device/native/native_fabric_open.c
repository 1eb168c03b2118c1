//go:build linux && cgo

#include <sys/eventfd.h>
#include <sys/mman.h>

#include "native_fabric.h"

enum { BUFFER_SIZE = FABRIC_PATHS * FABRIC_DEPTH * FABRIC_SLOT };

struct result modify_fabric(struct fabric *f, struct ibv_qp *qp, struct ibv_qp_attr *a, int mask)
{
	int err = FABRIC_ORDER(f, C_MODIFY_QP, lib.modify_qp(qp, a, mask));

	return err ? failed(C_MODIFY_QP, err) : (struct result){ 0 };
}

static struct result make_ud(struct fabric *f, int path)
{
	struct ibv_qp_init_attr init = {
		.send_cq = f->send_cq,
		.recv_cq = f->cq,
		.cap = { .max_send_wr = FABRIC_SENDS,
			 .max_recv_wr = FABRIC_DEPTH,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = sizeof(struct datagram_wire) },
		.qp_type = IBV_QPT_UD,
	};
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
				 .port_num = f->c.port,
				 .pkey_index = f->c.pkey_index,
				 .qkey = f->c.qkey };
	struct result r;
	int i, err;

	f->ud[path] = FABRIC_ORDER(f, C_CREATE_QP, lib.create_qp(f->pd, &init));
	if (!f->ud[path])
		return failed(C_CREATE_QP, errno);
	r = modify_fabric(f, f->ud[path], &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	a.qp_state = IBV_QPS_RTR;
	if (!r.err)
		r = modify_fabric(f, f->ud[path], &a, IBV_QP_STATE);
	a.qp_state = IBV_QPS_RTS;
	if (!r.err)
		r = modify_fabric(f, f->ud[path], &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
	for (i = 0; i < FABRIC_DEPTH && !r.err; i++)
		if ((err = post_fabric_receive(f, path, i)))
			r = failed(C_POST_RECV, err);
	return r;
}

static struct result make_memory(struct fabric *f)
{
	f->buffer = mmap(NULL, BUFFER_SIZE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (f->buffer == MAP_FAILED) {
		f->buffer = NULL;
		return failed(C_REG_MR, errno);
	}
	f->mr = FABRIC_ORDER(f, C_REG_MR, lib.reg_mr(f->pd, f->buffer, BUFFER_SIZE, IBV_ACCESS_LOCAL_WRITE));
	return f->mr ? (struct result){ 0 } : failed(C_REG_MR, errno);
}

// try_rc checks whether the device has RC queue pairs, before any peer creates its part of a pair.
static struct result try_rc(struct fabric *f)
{
	struct pair p = { 0 };
	struct result r = make_rc(f, &p, FR_ANSWERS), dropped = drop_rc(f, &p);

	return r.err ? r : dropped;
}

static struct result make_fabric(struct fabric *f)
{
	struct ibv_context *ctx = f->d->ctx;
	struct result r;
	int err, i;

	f->pd = FABRIC_ORDER(f, C_ALLOC_PD, lib.alloc_pd(ctx));
	if (f->pd)
		f->rc_pd = FABRIC_ORDER(f, C_ALLOC_PD, lib.alloc_pd(ctx));
	if (!f->rc_pd)
		return failed(C_ALLOC_PD, errno);
	f->channel = FABRIC_ORDER(f, C_CREATE_COMP_CHANNEL, lib.create_comp_channel(ctx));
	if (!f->channel)
		return failed(C_CREATE_COMP_CHANNEL, errno);
	err = set_nonblocking(f->channel->fd);
	if (err)
		return failed(C_CREATE_COMP_CHANNEL, err);
	f->cq = FABRIC_ORDER(f, C_CREATE_CQ, lib.create_cq(ctx, FABRIC_CQ, f, f->channel, 0));
	if (f->cq)
		f->send_cq = FABRIC_ORDER(f, C_CREATE_CQ,
					  lib.create_cq(ctx, FABRIC_PATHS * FABRIC_SENDS, f, NULL, 0));
	if (!f->send_cq)
		return failed(C_CREATE_CQ, errno);
	r = try_rc(f);
	if (!r.err)
		r = make_memory(f);
	for (i = 0; i < f->c.paths && !r.err; i++)
		r = make_ud(f, i);
	if (r.err)
		return r;
	err = FABRIC_CALL(f, C_REQ_NOTIFY_CQ, ibv_req_notify_cq(f->cq, 0));
	return err ? failed(C_REQ_NOTIFY_CQ, err) : (struct result){ 0 };
}

struct result native_fabric_open(struct device *d, const struct fabric_config *c, struct fabric **out,
				 uint32_t ud[FABRIC_PATHS])
{
	struct fabric *f = calloc(1, sizeof *f);
	struct result r, ignored;
	int i;

	if (!f)
		return failed(C_CREATE_CQ, ENOMEM);
	f->d = d;
	f->c = *c;
	f->led = &d->led->fabric[c->slot];
	f->up_to = now();
	pthread_mutex_init(&f->lock, NULL);
	f->nudge = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = f->nudge < 0 ? failed(C_CREATE_COMP_CHANNEL, errno) : make_fabric(f);
	if (r.err) {
		ignored = native_fabric_close(f); // the first error is the cause
		(void)ignored;
		return r;
	}
	for (i = 0; i < c->paths; i++)
		ud[i] = f->ud[i]->qp_num;
	*out = f;
	return r;
}

void native_fabric_nudge(struct fabric *f)
{
	wake_up(f->nudge);
}

// first_error returns the first of two errors.
static struct result first_error(struct result first, enum call call, int err)
{
	return !first.err && err ? failed(call, err) : first;
}

// native_fabric_close destroys each object after the objects that use it. All events have been acknowledged where they were
// read.
struct result native_fabric_close(struct fabric *f)
{
	struct result r = { 0 }, pairs;
	int i;

	for (i = 0; i < f->c.paths; i++)
		if (f->ud[i])
			r = first_error(r, C_DESTROY_QP,
					FABRIC_ORDER(f, C_DESTROY_QP, lib.destroy_qp(f->ud[i])));
	pairs = drop_pairs(f);
	r = r.err ? r : pairs;
	if (f->mr)
		r = first_error(r, C_DEREG_MR, FABRIC_ORDER(f, C_DEREG_MR, lib.dereg_mr(f->mr)));
	// If a queue pair or the memory region was not destroyed, the device may still write into the buffer.
	if (f->buffer && !r.err)
		munmap(f->buffer, BUFFER_SIZE);
	if (f->send_cq)
		r = first_error(r, C_DESTROY_CQ, FABRIC_ORDER(f, C_DESTROY_CQ, lib.destroy_cq(f->send_cq)));
	if (f->cq)
		r = first_error(r, C_DESTROY_CQ, FABRIC_ORDER(f, C_DESTROY_CQ, lib.destroy_cq(f->cq)));
	if (f->channel)
		r = first_error(
			r, C_DESTROY_COMP_CHANNEL,
			FABRIC_ORDER(f, C_DESTROY_COMP_CHANNEL, lib.destroy_comp_channel(f->channel)));
	if (f->rc_pd)
		r = first_error(r, C_DEALLOC_PD, FABRIC_ORDER(f, C_DEALLOC_PD, lib.dealloc_pd(f->rc_pd)));
	if (f->pd)
		r = first_error(r, C_DEALLOC_PD, FABRIC_ORDER(f, C_DEALLOC_PD, lib.dealloc_pd(f->pd)));
	if (f->nudge >= 0)
		close(f->nudge);
	pthread_mutex_destroy(&f->lock);
	free(f);
	return r;
}
