//go:build linux && cgo

#include <stddef.h>
#include <string.h>
#include <time.h>

#include "native_fabric.h"

enum { RC_SENDS = 4 };

// A retired pair has ended, but its datagrams have not all completed. SENT_MS is the time to wait for them, MAX_RETIRED the
// largest number of such pairs.
enum { SENT_MS = 20, MAX_RETIRED = 64 };

// The device reports an error after at most RC_RETRIES + 1 times four times 4.096 us << RC_TIMEOUT, which is two seconds. With 7
// retries rxe of Linux 6.1 never stops retrying (rxe_requester in rxe_req.c).
enum { RC_TIMEOUT = 14, RC_RETRIES = 6 };

// Only a responder's queue pair allows the peer to write, and its protection domain has no memory region to write to.
struct result make_rc(struct fabric *f, struct pair *p, int role)
{
	struct ibv_qp_init_attr init = {
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.cap = { .max_send_wr = RC_SENDS, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = f->c.port,
		.pkey_index = f->c.pkey_index,
		.qp_access_flags = role == FR_ANSWERS ? IBV_ACCESS_REMOTE_WRITE : 0,
	};

	p->rc = FABRIC_ORDER(f, C_CREATE_QP, lib.create_qp(f->rc_pd, &init));
	if (!p->rc)
		return failed(C_CREATE_QP, errno);
	return modify_fabric(f, p->rc, &a,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

struct result drop_rc(struct fabric *f, struct pair *p)
{
	int err = p->rc ? FABRIC_ORDER(f, C_DESTROY_QP, lib.destroy_qp(p->rc)) : 0;

	p->rc = NULL;
	return err ? failed(C_DESTROY_QP, err) : (struct result){ 0 };
}

// has_unsent reports whether datagrams of a retired pair have not completed yet.
static int has_unsent(struct fabric *f, const struct pair *p)
{
	int i, left = 0;

	pthread_mutex_lock(&f->lock);
	FABRIC_ORDER(f, C_POLL_CQ, (poll_sent(f), 0));
	for (i = 0; i < p->peer.paths; i++)
		left |= (int32_t)(p->posted[i] - f->done[i]) > 0;
	pthread_mutex_unlock(&f->lock);
	return left;
}

// free_pair destroys the remaining objects of a pair that is in no table.
static struct result free_pair(struct fabric *f, struct pair *p)
{
	struct result r = drop_rc(f, p);
	int i, err;

	for (i = 0; i < FABRIC_PATHS; i++)
		if (p->ah[i] && (err = FABRIC_ORDER(f, C_DESTROY_AH, lib.destroy_ah(p->ah[i]))) && !r.err)
			r = failed(C_DESTROY_AH, err);
	free(p);
	return r;
}

// free_retired frees the retired pairs whose datagrams have completed. With all it frees all of them; the UD queue pairs must
// have been destroyed before.
static struct result free_retired(struct fabric *f, int all)
{
	struct pair **at = &f->retired, *p;
	struct result r = { 0 }, one;

	while ((p = *at)) {
		if (!all && has_unsent(f, p)) {
			at = &p->next_retired;
			continue;
		}
		*at = p->next_retired;
		f->retired_count--;
		one = free_pair(f, p);
		r = r.err ? r : one;
	}
	return r;
}

// retire_pair ends a pair that is in no table any more; p may be NULL. It also frees earlier retired pairs. An address handle
// must outlive the datagrams that use it: if they do not complete soon, a later order destroys the handle.
static struct result retire_pair(struct fabric *f, struct pair *p)
{
	const struct timespec pause = { .tv_nsec = MS };
	struct result r, one;
	int i;

	if (!p)
		return free_retired(f, 0);
	r = drop_rc(f, p);
	for (i = 0; i < SENT_MS && has_unsent(f, p); i++)
		nanosleep(&pause, NULL);
	p->next_retired = f->retired;
	f->retired = p;
	f->retired_count++;
	one = free_retired(f, 0);
	return r.err ? r : one;
}

static struct pair *take_offered(struct fabric *f, int pair)
{
	struct pair *p = f->offered[pair];

	f->offered[pair] = NULL;
	return p;
}

struct result native_fabric_offer(struct fabric *f, int pair, int role, uint32_t *rc)
{
	struct result r = retire_pair(f, take_offered(f, pair));
	struct pair *p;

	if (!r.err && f->retired_count >= MAX_RETIRED)
		r = failed(C_CREATE_QP, EAGAIN); // the device has completed no datagram for long
	if (r.err)
		return r;
	p = calloc(1, sizeof *p);
	if (!p)
		return failed(C_CREATE_QP, ENOMEM);
	p->led = &f->led->pair[pair];
	p->generation = ++f->generation;
	r = make_rc(f, p, role);
	if (r.err) {
		free_pair(f, p); // its error is ignored, since the first error is the cause
		return r;
	}
	*rc = p->rc->qp_num;
	f->offered[pair] = p;
	return r;
}

// flow_label returns the flow label of a path. Switches choose a route by it, and by the UDP source port that drivers derive
// from it. The label is never 0, which mlx5 replaces by a random port (mlx5_ah_set_udp_sport in mlx5/ah.c).
static uint32_t flow_label(int path)
{
	return 0x1b3c5u * (path + 1) & 0xfffff;
}

static struct ibv_ah_attr path_address(const struct fabric *f, const struct fabric_peer *to, int path)
{
	struct ibv_ah_attr a = {
		.dlid = to->lid,
		.sl = f->c.service_level,
		.port_num = f->c.port,
		.is_global = to->global,
		.grh = { .sgid_index = to->gid_index,
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
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = path_address(f, &p->peer, 0),
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = p->peer.own_psn,
		.timeout = RC_TIMEOUT,
		.retry_cnt = RC_RETRIES,
		.rnr_retry = RC_RETRIES,
		.max_rd_atomic = 1,
	};
	struct result r =
		modify_fabric(f, p->rc, &rtr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);

	if (r.err)
		return r;
	return modify_fabric(f, p->rc, &rts,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static struct result make_handles(struct fabric *f, struct pair *p)
{
	int i;

	for (i = 0; i < p->peer.paths; i++) {
		struct ibv_ah_attr to = path_address(f, &p->peer, i);

		p->ah[i] = FABRIC_ORDER(f, C_CREATE_AH, lib.create_ah(f->pd, &to));
		if (!p->ah[i])
			return failed(C_CREATE_AH, errno);
	}
	return (struct result){ 0 };
}

// install_pair puts a pair into a slot, and returns the pair that was there. It clears the session in the ledger before it
// clears the counts, so that a host never finds the counts of one session under the number of another, even if this process
// dies meanwhile.
static struct pair *install_pair(struct fabric *f, int pair, struct pair *p)
{
	enum {
		FIRST = offsetof(struct ledger_fabric_pair, sent) / sizeof(uint64_t),
		END = offsetof(struct ledger_fabric_pair, pad) / sizeof(uint64_t)
	};
	uint64_t *words = (uint64_t *)p->led;
	struct pair *before;
	unsigned i;

	pthread_mutex_lock(&f->lock);
	before = f->pair[pair];
	__atomic_store_n(&p->led->session, 0, __ATOMIC_SEQ_CST);
	for (i = FIRST; i < END; i++) // each count
		__atomic_store_n(&words[i], 0, __ATOMIC_RELEASE);
	__atomic_store_n(&p->led->session, p->peer.session, __ATOMIC_RELEASE);
	for (i = 0; i < FABRIC_PATHS; i++)
		p->own_dry[i] = f->dry[i];
	p->next = now() + p->peer.first_ns;
	f->pair[pair] = p;
	pthread_mutex_unlock(&f->lock);
	return before;
}

// remove_pair removes the pair from a slot and returns it, or NULL if there is none.
static struct pair *remove_pair(struct fabric *f, int pair)
{
	struct pair *p;

	pthread_mutex_lock(&f->lock);
	p = f->pair[pair];
	f->pair[pair] = NULL;
	pthread_mutex_unlock(&f->lock);
	return p;
}

struct result native_fabric_join(struct fabric *f, int pair, const struct fabric_peer *peer)
{
	struct pair *p = take_offered(f, pair);
	struct result r;

	if (!p)
		return failed(C_MODIFY_QP, EINVAL);
	p->peer = *peer;
	r = make_handles(f, p);
	if (!r.err)
		r = connect_pair(f, p);
	if (r.err) {
		free_pair(f, p); // its error is ignored, since the first error is the cause
		return r;
	}
	r = retire_pair(f, install_pair(f, pair, p));
	if (r.err)
		retire_pair(f, remove_pair(f, pair)); // its error is ignored, too
	native_fabric_nudge(f);
	return r;
}

struct result native_fabric_leave(struct fabric *f, int pair)
{
	struct result r = retire_pair(f, remove_pair(f, pair));
	struct result offered = retire_pair(f, take_offered(f, pair));

	return r.err ? r : offered;
}

struct result drop_pairs(struct fabric *f)
{
	struct result r = free_retired(f, 1), one;
	struct pair *p;
	int i;

	for (i = 0; i < 2 * FABRIC_PAIRS; i++) {
		p = i < FABRIC_PAIRS ? remove_pair(f, i) : take_offered(f, i - FABRIC_PAIRS);
		one = p ? free_pair(f, p) : r;
		r = r.err ? r : one;
	}
	return r;
}
