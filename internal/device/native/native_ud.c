//go:build linux && cgo

#include <string.h>

#include "native_lib.h"

enum { POLL_SENDS_NS = 1000000 };

// is_unresolved reports whether create_ah failed because the address does not exist yet or
// any more: the entry is empty (ENODATA), or it has just changed and the kernel searches the
// network for the former address (addr_resolve in drivers/infiniband/core/addr.c). Such an
// errno is no evidence against the device.
static int is_unresolved(int err)
{
	return err == ENODATA || err == ETIMEDOUT || err == EHOSTUNREACH || err == ENETUNREACH ||
	       err == EADDRNOTAVAIL;
}

// read_own_gid reads the current value of the probe's entry in the GID table. An empty entry
// has only zeros; some kernels return ENODATA for it.
static struct result read_own_gid(struct probe *p, union ibv_gid *gid)
{
	static const union ibv_gid none;
	int err = PROBE_CALL(p, C_QUERY_GID, lib.query_gid(p->d->ctx, p->c.port, p->c.gid_index, gid));

	if (err)
		return failed(C_QUERY_GID, err);
	return memcmp(gid, &none, sizeof none) ? (struct result){ 0 } : failed(C_QUERY_GID, ENODATA);
}

// device_is_silent reports whether it may be the device that did not answer: the creation
// timed out, and the probe's entry still has the address that was not found.
static int device_is_silent(struct probe *p, struct result r, const union ibv_gid *sought)
{
	union ibv_gid gid;

	return r.err == ETIMEDOUT && p->c.handle_command && p->c.global && !read_own_gid(p, &gid).err &&
	       !memcmp(&gid, sought, sizeof gid);
}

struct ibv_ah_attr own_address(const struct probe *p)
{
	struct ibv_ah_attr a = {
		.dlid = p->c.lid,
		.port_num = p->c.port,
		.is_global = p->c.global,
		.grh = { .sgid_index = p->c.gid_index, .hop_limit = 64 },
	};

	memcpy(a.grh.dgid.raw, p->c.gid, sizeof p->c.gid);
	return a;
}

struct result hold_address(struct probe *p)
{
	struct ibv_ah_attr own = own_address(p);
	struct result r = { 0 };

	if (p->ah)
		return r;
	if (p->c.global) {
		r = read_own_gid(p, &own.grh.dgid);
		if (r.err)
			return r;
	}
	p->ah = PROBE_CALL(p, C_CREATE_AH, lib.create_ah(p->pd, &own));
	if (!p->ah)
		r = failed(C_CREATE_AH, errno);
	p->unanswered = device_is_silent(p, r, &own.grh.dgid) ? p->unanswered + 1 : 0;
	return r;
}

struct result drop_address(struct probe *p)
{
	int err = p->ah ? PROBE_CALL(p, C_DESTROY_AH, lib.destroy_ah(p->ah)) : 0;

	p->ah = NULL;
	return err ? failed(C_DESTROY_AH, err) : (struct result){ 0 };
}

// One failure is no proof. The kernel does not find a new IPv6 address for a second or two,
// until it has checked that no other host has the address (RFC 4862, 5.4).
int missing_address(const struct probe *p, struct result r)
{
	return (r.call == C_CREATE_AH || r.call == C_QUERY_GID) && is_unresolved(r.err) && p->unanswered < 2;
}

// The datagram contains the number of its round, and whether it is the second one. A late
// datagram of a round that was given up is therefore not taken for one of this round.
struct result post_datagram(struct probe *p, int64_t t)
{
	struct ibv_send_wr wr = { .wr_id = p->round,
				  .send_flags = IBV_SEND_SIGNALED,
				  .opcode = IBV_WR_SEND_WITH_IMM,
				  .imm_data = datagram(p) };
	struct ibv_send_wr *bad;
	int err;

	wr.wr.ud.ah = p->ah;
	wr.wr.ud.remote_qpn = p->qp->qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	enter_call(&p->led->thread, C_POST_SEND, t);
	err = ibv_post_send(p->qp, &wr, &bad);
	leave_call(&p->led->thread);
	if (err)
		return failed(C_POST_SEND, err);
	p->sends++;
	return (struct result){ 0 };
}

static int post_ud_receive(struct probe *p)
{
	struct ibv_sge where = { (uintptr_t)p->buffer, MR_SIZE, p->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &where, .num_sge = 1 }, *bad;

	return PROBE_CALL(p, C_POST_RECV, ibv_post_recv(p->qp, &wr, &bad));
}

// fill_receives posts receives. Without a posted receive the device would count the probe's packet
// as dropped.
struct result fill_receives(struct probe *p)
{
	for (; p->receives < UD_RECEIVES; p->receives++) {
		int err = post_ud_receive(p);
		if (err)
			return failed(C_POST_RECV, err);
	}
	return (struct result){ 0 };
}

// poll_send_cq polls the completed sends and records a bad status.
static int poll_send_cq(struct probe *p)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(p->send_cq, 1, &wc)) > 0) {
		p->sends--;
		if (wc.status)
			p->send_status = wc.status;
	}
	return n < 0 ? EIO : 0;
}

int poll_sends(struct probe *p)
{
	return PROBE_CALL(p, C_POLL_CQ, poll_send_cq(p));
}

// The address handle must not be destroyed before the send that uses it has completed: some
// devices read it when they send.
void finish_sends(struct probe *p, int64_t until)
{
	while (!poll_sends(p) && p->sends > 0 && now() < until)
		if (await(p->d, -1, now() + POLL_SENDS_NS) == ECANCELED)
			return;
}
