//go:build linux && cgo

#include <endian.h>

#include "native_fabric.h"

enum { MAGIC = 0x52444d46, VERSION = 1 };

// MAX_DRAINS is the largest number of batches of completions handled in a row. Only a stranger who sends without end causes
// more.
enum { MAX_DRAINS = 16 };

int post_fabric_receive(struct fabric *f, int path, int place)
{
	char *at = (char *)f->buffer + (size_t)(path * FABRIC_DEPTH + place) * FABRIC_SLOT;
	struct ibv_sge where = { (uintptr_t)at, FABRIC_SLOT, f->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = work_id(WR_RECEIVE, path, place),
				  .sg_list = &where,
				  .num_sge = 1 };
	struct ibv_recv_wr *bad;
	int err = FABRIC_CALL(f, C_POST_RECV, ibv_post_recv(f->ud[path], &wr, &bad));

	if (!err)
		f->receives[path]++;
	return err;
}

void poll_sent(struct fabric *f)
{
	struct ibv_wc wc[16];
	int n, i;

	while ((n = ibv_poll_cq(f->send_cq, 16, wc)) > 0) {
		for (i = 0; i < n; i++) {
			f->done[wc[i].wr_id >> 16 & 0xff]++;
			if (wc[i].status)
				f->end.wc_status = wc[i].status;
		}
	}
	if (n < 0)
		f->end.failed = failed(C_POLL_CQ, EIO);
}

// post_datagram_to requests a completion for each datagram. An address handle must not be destroyed before the datagrams that
// use it have completed, since some devices read it only when they send.
int post_datagram_to(struct fabric *f, struct pair *p, int path, struct datagram_wire *m)
{
	struct ibv_sge what = { (uintptr_t)m, sizeof *m, 0 };
	struct ibv_send_wr wr = { .wr_id = work_id(WR_SEND, path, 0),
				  .sg_list = &what,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;
	int err;

	m->magic = htobe32(MAGIC);
	m->version = VERSION;
	m->path = path;
	m->session = htobe64(p->peer.session);
	wr.wr.ud.ah = p->ah[path];
	wr.wr.ud.remote_qpn = p->peer.ud[path];
	wr.wr.ud.remote_qkey = p->peer.qkey;
	if (f->sent[path] - f->done[path] == FABRIC_SENDS)
		FABRIC_CALL(f, C_POLL_CQ, (poll_sent(f), 0));
	if (f->sent[path] - f->done[path] == FABRIC_SENDS)
		return ENOMEM;
	err = FABRIC_CALL(f, C_POST_SEND, ibv_post_send(f->ud[path], &wr, &bad));
	if (!err)
		p->posted[path] = ++f->sent[path];
	return err;
}

// is_new reports whether a probe arrives for the first time, and records it. A network may deliver a datagram twice.
static int is_new(struct pair *p, uint32_t seq)
{
	uint32_t *last = &p->arrived[seq % 256];

	if ((int32_t)(seq - *last) <= 0)
		return 0;
	*last = seq;
	return 1;
}

// send_echo echoes a probe, unless the pair has had FABRIC_ECHOES echoes in this second. A probe that is not echoed still
// counts as received.
static void send_echo(struct fabric *f, struct pair *p, const struct datagram_wire *m, int path, int64_t came)
{
	struct datagram_wire e = { .type = T_ECHO, .seq = m->seq };
	int64_t t = now();

	p->rx[path]++;
	if (t - p->second >= SECOND_NS) {
		p->second = t;
		p->echoes = 0;
	}
	if (p->echoes < FABRIC_ECHOES) {
		e.rx = htobe32(p->rx[path]);
		e.tx = htobe32(p->tx[path] + 1);
		e.dry = htobe32(f->dry[path] - p->own_dry[path]);
		e.delay = htobe64(t - came);
		if (!post_datagram_to(f, p, path, &e)) {
			p->echoes++;
			p->tx[path]++;
			add_count(&f->led->echoed, 1);
			add_count(&p->led->answered, 1);
			return;
		}
	}
	add_count(&f->led->refused, 1);
}

// await_next_echo makes the echo of the newest probe the awaited one, if that probe was sent after the answered one, as
// verdict.EchoWatch does.
static void await_next_echo(const struct fabric *f, struct pair *p, uint32_t answered)
{
	if ((int32_t)(answered - p->awaited) < 0)
		return;
	p->missing_at = 0;
	if ((int32_t)(p->seq - answered) > 0) {
		p->awaited = p->seq;
		p->missing_at = p->sent[p->seq % 256].at + f->c.missing_ns;
	}
}

// handle_echo handles a datagram as the first echo of a probe, on the probe's path. It returns 0 if it is no such echo.
static int handle_echo(struct fabric *f, int i, struct pair *p, const struct datagram_wire *m, int path,
		       int64_t came, struct sink *s)
{
	uint32_t seq = be32toh(m->seq), dry = be32toh(m->dry);
	struct fabric_item *out;
	int64_t at;

	if (!seq || p->sent[seq % 256].seq != seq || (int)((seq - 1) % p->peer.paths) != path)
		return 0;
	at = p->sent[seq % 256].at;
	p->sent[seq % 256].seq = 0; // a second echo of the same probe counts as foreign
	out = add_item(s, FK_ECHO, i, p, came);
	out->path = path;
	out->seq = seq;
	out->rx = be32toh(m->rx);
	out->tx = be32toh(m->tx);
	out->delay = be64toh(m->delay);
	out->took = came - at;
	out->dry = dry != p->peer_dry[path] || f->dry[path] != p->own_dry[path];
	p->peer_dry[path] = dry;
	p->own_dry[path] = f->dry[path];
	p->reported = p->more_requested = p->more = 0;
	await_next_echo(f, p, seq);
	add_count(&p->led->answered, 1);
	return 1;
}

// handle_datagram handles a datagram if it belongs to a pair: it must have the pair's session, come from the queue pair of the
// path, and have the type that matches the pair's role. A probe that arrives again is neither counted nor echoed again. It
// returns 0 for other datagrams.
static int handle_datagram(struct fabric *f, const struct ibv_wc *wc, int path, int64_t came, struct sink *s)
{
	size_t slot = path * FABRIC_DEPTH + (wc->wr_id & 0xffff);
	const struct datagram_wire *m = (void *)((char *)f->buffer + slot * FABRIC_SLOT + FABRIC_GRH);
	int role = m->type == T_PROBE ? FR_ANSWERS : FR_PROBES, i;
	uint64_t session = be64toh(m->session);

	if (wc->byte_len != FABRIC_GRH + sizeof *m || be32toh(m->magic) != MAGIC || m->version != VERSION ||
	    m->path != path || (m->type != T_PROBE && m->type != T_ECHO))
		return 0;
	for (i = 0; i < FABRIC_PAIRS; i++) {
		struct pair *p = f->pair[i];

		if (!p || p->peer.session != session || p->peer.role != role || path >= p->peer.paths ||
		    p->peer.ud[path] != wc->src_qp)
			continue;
		if (role == FR_PROBES)
			return handle_echo(f, i, p, m, path, came, s);
		if (!is_new(p, be32toh(m->seq)))
			return 0;
		send_echo(f, p, m, path, came);
		return 1;
	}
	return 0;
}

// handle_write handles the completion of a write, unless its pair no longer exists.
static void handle_write(struct fabric *f, const struct ibv_wc *wc, int64_t came, struct sink *s)
{
	int i = wc->wr_id >> 16 & 0xff;
	struct pair *p = i < FABRIC_PAIRS ? f->pair[i] : NULL;

	if (!p || p->generation != (wc->wr_id & 0xffff) || !p->write_at)
		return;
	if (wc->status) {
		fail_write(i, p, came, wc->status, s);
		return;
	}
	add_item(s, FK_WRITE_DONE, i, p, came)->took = came - p->write_at;
	p->write_at = 0;
	add_count(&p->led->writes_ok, 1);
}

// handle_receive handles a received datagram and posts its receive again. Both succeed as long as the queue pair can be used.
static void handle_receive(struct fabric *f, const struct ibv_wc *wc, int64_t came, struct sink *s)
{
	int path = wc->wr_id >> 16 & 0xff, err;

	if (wc->status) {
		f->end.wc_status = wc->status;
		return;
	}
	if (!handle_datagram(f, wc, path, came, s))
		add_count(&f->led->foreign, 1);
	err = post_fabric_receive(f, path, wc->wr_id & 0xffff);
	if (err)
		f->end.failed = failed(C_POST_RECV, err);
}

// handle_completions handles n completions. It counts used-up receives only afterwards: the echoes of the probes among these
// completions do not report it yet, but the next echoes do.
static void handle_completions(struct fabric *f, int n, int64_t came, struct sink *s)
{
	int i, path;

	for (i = 0; i < n; i++) {
		if (f->wc[i].wr_id >> 56 == WR_WRITE)
			handle_write(f, &f->wc[i], came, s);
		else
			handle_receive(f, &f->wc[i], came, s);
	}
	for (path = 0; path < f->c.paths; path++) {
		if (!f->used_up[path])
			continue;
		f->used_up[path] = 0;
		f->dry[path]++;
		add_count(&f->led->dry, 1);
	}
}

// poll_fabric_cq polls all completions before any of them is handled. Only then does it notice that all receives of a path were
// used up, so that the device may have dropped datagrams.
static int poll_fabric_cq(struct fabric *f, int n)
{
	int got, path;

	while (n < FABRIC_BATCH && (got = ibv_poll_cq(f->cq, FABRIC_BATCH - n, f->wc + n)) != 0) {
		if (got < 0)
			return -1;
		for (; got; got--, n++) {
			path = f->wc[n].wr_id >> 16 & 0xff;
			if (f->wc[n].wr_id >> 56 == WR_RECEIVE && !--f->receives[path])
				f->used_up[path] = 1;
		}
	}
	return n;
}

// read_fabric_event reads one event, polls, arms and polls again, for the reasons at read_cq_event. It reports whether there was
// an event. n is set to the number of completions, or to a negative value after a failed poll.
static int read_fabric_event(struct fabric *f, int *n)
{
	struct thread_state *state = &f->led->thread;
	struct result armed = { 0 };
	struct ibv_cq *cq;
	void *context;
	int err;

	enter_call(state, C_GET_CQ_EVENT, now());
	if (lib.get_cq_event(f->channel, &cq, &context)) {
		err = errno;
		leave_call(state);
		if (err != EAGAIN)
			f->end.failed = failed(C_GET_CQ_EVENT, err);
		return 0;
	}
	add_count(&f->led->events, 1);
	set_call(state, C_POLL_CQ);
	*n = poll_fabric_cq(f, 0);
	err = FABRIC_CALL(f, C_REQ_NOTIFY_CQ, ibv_req_notify_cq(f->cq, 0));
	if (err)
		armed = failed(C_REQ_NOTIFY_CQ, err);
	else if (*n >= 0)
		*n = FABRIC_CALL(f, C_POLL_CQ, poll_fabric_cq(f, *n));
	enter_call(state, C_ACK_CQ_EVENTS, now());
	lib.ack_cq_events(cq, 1);
	leave_call(state);
	add_count(&f->led->acked, 1);
	if (armed.err)
		f->end.failed = armed;
	if (!*n)
		add_count(&f->led->spurious, 1);
	return 1;
}

int drain_completions(struct fabric *f, struct sink *s)
{
	int i;

	for (i = 0; i < MAX_DRAINS && s->n + FABRIC_ROOM <= s->cap; i++) {
		int64_t before = now();
		int n = 0, event = read_fabric_event(f, &n);

		if (!event)
			n = FABRIC_CALL(f, C_POLL_CQ, poll_fabric_cq(f, 0));
		if (n < 0)
			f->end.failed = failed(C_POLL_CQ, EIO);
		FABRIC_CALL(f, C_POLL_CQ, (poll_sent(f), 0));
		handle_completions(f, n, now(), s);
		if (has_failed(f))
			return -1;
		if (!n && !event) {
			f->up_to = before;
			return 0;
		}
	}
	return 1;
}
