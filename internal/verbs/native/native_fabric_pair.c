//go:build linux && cgo

#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "native_fabric.h"

enum { BUFFER_SIZE = FABRIC_PATHS * FABRIC_DEPTH * FABRIC_SLOT, RC_SENDS = 4, INLINE = 64 };

// An error of the device takes at most RC_RETRIES + 1 times four times 4.096 us << RC_TIMEOUT: two seconds. 7 retries never end
// on rxe of Linux 6.1 (rxe_requester in rxe_req.c).
enum { RC_TIMEOUT = 14, RC_RETRIES = 6 };

static struct result modify_ud(struct fabric *f, struct ibv_qp *qp, struct ibv_qp_attr *a, int mask)
{
	int err = FABRIC_ORDER(f, C_MODIFY_QP, lib.modify_qp(qp, a, mask));

	return err ? failed(C_MODIFY_QP, err) : (struct result){ 0 };
}

static struct result make_ud(struct fabric *f, int path)
{
	struct ibv_qp_init_attr init = {
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.cap = { .max_send_wr = FABRIC_SENDS,
			 .max_recv_wr = FABRIC_DEPTH,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = INLINE },
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
	r = modify_ud(f, f->ud[path], &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	a.qp_state = IBV_QPS_RTR;
	if (!r.err)
		r = modify_ud(f, f->ud[path], &a, IBV_QP_STATE);
	a.qp_state = IBV_QPS_RTS;
	if (!r.err)
		r = modify_ud(f, f->ud[path], &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
	for (i = 0; i < FABRIC_DEPTH && !r.err; i++)
		if ((err = post_fabric_receive(f, path, i)))
			r = failed(C_POST_RECV, err);
	return r;
}

static struct result make_memory(struct fabric *f)
{
	f->buffer = mmap(NULL, BUFFER_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1,
			 0);
	if (f->buffer == MAP_FAILED) {
		f->buffer = NULL;
		return failed(C_REG_MR, errno);
	}
	f->mr = FABRIC_ORDER(f, C_REG_MR, lib.reg_mr(f->pd, f->buffer, BUFFER_SIZE, IBV_ACCESS_LOCAL_WRITE));
	return f->mr ? (struct result){ 0 } : failed(C_REG_MR, errno);
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
	err = nonblocking(f->channel->fd);
	if (err)
		return failed(C_CREATE_COMP_CHANNEL, err);
	f->cq = FABRIC_ORDER(f, C_CREATE_CQ, lib.create_cq(ctx, FABRIC_CQ, f, f->channel, 0));
	if (!f->cq)
		return failed(C_CREATE_CQ, errno);
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

static struct result modify_rc(struct fabric *f, struct pair *p, struct ibv_qp_attr *a, int mask)
{
	return modify_ud(f, p->rc, a, mask);
}

// free_pair destroys a pair that is in no table.
static struct result free_pair(struct fabric *f, struct pair *p)
{
	struct result r = { 0 };
	int i, err;

	if (!p)
		return r;
	if (p->rc && (err = FABRIC_ORDER(f, C_DESTROY_QP, lib.destroy_qp(p->rc))))
		r = failed(C_DESTROY_QP, err);
	for (i = 0; i < FABRIC_PATHS; i++)
		if (p->ah[i] && (err = FABRIC_ORDER(f, C_DESTROY_AH, lib.destroy_ah(p->ah[i]))) && !r.err)
			r = failed(C_DESTROY_AH, err);
	free(p);
	return r;
}

struct result native_fabric_offer(struct fabric *f, int pair, int role, uint32_t *rc)
{
	struct ibv_qp_init_attr init = {
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.cap = { .max_send_wr = RC_SENDS, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	// Only a responder's queue pair lets the peer write, and its protection domain has no memory to write to.
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = f->c.port,
		.pkey_index = f->c.pkey_index,
		.qp_access_flags = role == FR_ANSWERS ? IBV_ACCESS_REMOTE_WRITE : 0,
	};
	struct pair *p = calloc(1, sizeof *p);
	struct result r;

	if (!p)
		return failed(C_CREATE_QP, ENOMEM);
	p->led = &f->led->pair[pair];
	p->generation = ++f->generation;
	p->rc = FABRIC_ORDER(f, C_CREATE_QP, lib.create_qp(f->rc_pd, &init));
	r = p->rc ? modify_rc(f, p, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) :
		    failed(C_CREATE_QP, errno);
	if (r.err) {
		free_pair(f, p);
		return r;
	}
	*rc = p->rc->qp_num;
	f->offered[pair] = p;
	return r;
}

// flow_label returns a label for each path. Switches choose a way by it, and by the UDP source port that drivers make of it.
// It is never 0, which mlx5 replaces by a random port (mlx5_ah_set_udp_sport in mlx5/ah.c).
static uint32_t flow_label(int path)
{
	return 0x1b3c5u * (path + 1) & 0xfffff;
}

static struct ibv_ah_attr address_of(const struct fabric *f, const struct fabric_peer *to, int path)
{
	struct ibv_ah_attr a = {
		.dlid = to->lid,
		.sl = f->c.service_level,
		.port_num = f->c.port,
		.is_global = to->global,
		.grh = { .sgid_index = f->c.gid_index,
			 .hop_limit = 64,
			 .traffic_class = f->c.traffic_class,
			 .flow_label = flow_label(path) },
	};

	memcpy(a.grh.dgid.raw, to->gid, sizeof to->gid);
	return a;
}

static struct result connect_pair(struct fabric *f, struct pair *p)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = p->peer.rc,
		.rq_psn = p->peer.psn,
		.min_rnr_timer = 12,
		.ah_attr = address_of(f, &p->peer, 0),
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = p->peer.own_psn,
		.timeout = RC_TIMEOUT,
		.retry_cnt = RC_RETRIES,
		.rnr_retry = RC_RETRIES,
	};
	struct result r = modify_rc(f, p, &rtr,
				    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);

	if (r.err)
		return r;
	return modify_rc(f, p, &rts,
			 IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				 IBV_QP_MAX_QP_RD_ATOMIC);
}

static struct result make_handles(struct fabric *f, struct pair *p)
{
	int i;

	for (i = 0; i < p->peer.paths; i++) {
		struct ibv_ah_attr to = address_of(f, &p->peer, i);

		p->ah[i] = FABRIC_ORDER(f, C_CREATE_AH, lib.create_ah(f->pd, &to));
		if (!p->ah[i])
			return failed(C_CREATE_AH, errno);
	}
	return (struct result){ 0 };
}

struct result native_fabric_join(struct fabric *f, int pair, const struct fabric_peer *peer)
{
	struct pair *p = f->offered[pair];
	struct result r;
	int i;

	if (!p)
		return failed(C_MODIFY_QP, EINVAL);
	f->offered[pair] = NULL;
	p->peer = *peer;
	r = make_handles(f, p);
	if (!r.err)
		r = connect_pair(f, p);
	if (r.err) {
		free_pair(f, p);
		return r;
	}
	p->next = now() + peer->first_ns;
	p->led->session = peer->session;
	pthread_mutex_lock(&f->lock);
	for (i = 0; i < FABRIC_PATHS; i++)
		p->own_dry[i] = f->dry[i];
	f->pair[pair] = p;
	pthread_mutex_unlock(&f->lock);
	native_fabric_nudge(f);
	return r;
}

struct result native_fabric_leave(struct fabric *f, int pair)
{
	struct pair *offered = f->offered[pair], *joined;
	struct result r, other;

	f->offered[pair] = NULL;
	pthread_mutex_lock(&f->lock);
	joined = f->pair[pair];
	f->pair[pair] = NULL;
	pthread_mutex_unlock(&f->lock);
	r = free_pair(f, joined);
	other = free_pair(f, offered);
	return r.err ? r : other;
}

void native_fabric_nudge(struct fabric *f)
{
	wake_up(f->nudge);
}

// keep returns the first error of two.
static struct result keep(struct result first, enum call call, int err)
{
	return !first.err && err ? failed(call, err) : first;
}

// native_fabric_close destroys each object after those that use it. All events were acknowledged where they were read.
struct result native_fabric_close(struct fabric *f)
{
	struct result r = { 0 }, one;
	int i;

	for (i = 0; i < FABRIC_PAIRS; i++) {
		one = native_fabric_leave(f, i);
		r = r.err ? r : one;
	}
	for (i = 0; i < f->c.paths; i++)
		if (f->ud[i])
			r = keep(r, C_DESTROY_QP, FABRIC_ORDER(f, C_DESTROY_QP, lib.destroy_qp(f->ud[i])));
	if (f->mr)
		r = keep(r, C_DEREG_MR, FABRIC_ORDER(f, C_DEREG_MR, lib.dereg_mr(f->mr)));
	// If a queue pair or the memory region was not destroyed, the device may still write there.
	if (f->buffer && !r.err)
		munmap(f->buffer, BUFFER_SIZE);
	if (f->cq)
		r = keep(r, C_DESTROY_CQ, FABRIC_ORDER(f, C_DESTROY_CQ, lib.destroy_cq(f->cq)));
	if (f->channel)
		r = keep(r, C_DESTROY_COMP_CHANNEL,
			 FABRIC_ORDER(f, C_DESTROY_COMP_CHANNEL, lib.destroy_comp_channel(f->channel)));
	if (f->rc_pd)
		r = keep(r, C_DEALLOC_PD, FABRIC_ORDER(f, C_DEALLOC_PD, lib.dealloc_pd(f->rc_pd)));
	if (f->pd)
		r = keep(r, C_DEALLOC_PD, FABRIC_ORDER(f, C_DEALLOC_PD, lib.dealloc_pd(f->pd)));
	if (f->nudge >= 0)
		close(f->nudge);
	pthread_mutex_destroy(&f->lock);
	free(f);
	return r;
}
