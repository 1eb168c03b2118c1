//go:build linux && cgo

#include "native_lib.h"

int acknowledge(struct probe *p, int64_t t)
{
	int n = p->unacked;

	if (!n)
		return 0;
	enter_call(&p->led->thread, C_ACK_CQ_EVENTS, t);
	lib.ack_cq_events(p->cq, n);
	leave_call(&p->led->thread);
	add_count(&p->led->acked, n);
	p->unacked = 0;
	return n;
}

// is_own reports whether a completion belongs to the current round. A failed receive counts as
// its own, since it has no datagram that identifies a round.
static int is_own(const struct probe *p, const struct ibv_wc *wc)
{
	if (p->c.method != M_UD_SEND)
		return wc->wr_id == p->round;
	return wc->status || (wc->imm_data | 1) == (datagram(p) | 1);
}

int poll_completions(struct probe *p, struct poll_result *s)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(p->cq, 1, &wc)) > 0) {
		if (p->c.method == M_UD_SEND)
			p->receives--;
		if (!is_own(p, &wc)) {
			s->others++;
			continue;
		}
		s->mine = 1;
		s->status = wc.status;
		s->second = p->again && (wc.imm_data & 1);
	}
	return n < 0 ? EIO : 0;
}

// read_cq_event reads one completion event, drains the CQ, arms it and drains it again.
// On some devices the arm carries the consumer index (mlx5): if armed before the drain,
// they announce the same completions again. On other devices a completion between the
// first drain and the arm raises no event, so the second drain polls it. It returns EAGAIN
// if there is no event.
struct result read_cq_event(struct probe *p, struct poll_result *s, struct round *out)
{
	struct thread_state *state = &p->led->thread;
	struct ibv_cq *cq;
	void *context;
	int64_t before = now(), got, polled, armed, drained;
	int err;

	*s = (struct poll_result){ 0 };
	enter_call(state, C_GET_CQ_EVENT, before);
	if (lib.get_cq_event(p->channel, &cq, &context)) {
		err = errno;
		leave_call(state);
		return failed(C_GET_CQ_EVENT, err);
	}
	got = now();
	add_count(&p->led->events, 1);
	if (!p->unacked++)
		p->oldest = got;
	enter_call(state, C_POLL_CQ, got);
	err = poll_completions(p, s);
	if (err) {
		leave_call(state);
		return failed(C_POLL_CQ, err);
	}
	polled = now();
	enter_call(state, C_REQ_NOTIFY_CQ, polled);
	err = ibv_req_notify_cq(cq, 0);
	if (err) {
		leave_call(state);
		return failed(C_REQ_NOTIFY_CQ, err);
	}
	armed = now();
	enter_call(state, C_POLL_CQ, armed);
	err = poll_completions(p, s);
	drained = now();
	leave_call(state);
	if (err)
		return failed(C_POLL_CQ, err);
	if (s->second)
		out->start = p->sent_again;
	out->wake = got - out->start;
	out->get = got - before;
	out->arm = armed - polled;
	out->drain = polled - got + drained - armed;
	out->total = drained - out->start;
	if (p->unacked >= p->c.ack_batch) {
		int64_t acked;

		acknowledge(p, drained);
		acked = now();
		out->ack = acked - drained;
		out->hold = acked - p->oldest;
		if (p->c.ack_batch == 1)
			out->total = acked - out->start;
	}
	return (struct result){ 0 };
}

// count_stray counts an event without a completion of the current round. It belongs to a round
// that was given up, or to no round. The latter is legal: a completion may be polled before its
// event is read. The event of a disturbed round counts as neither late nor spurious.
void count_stray(struct probe *p, const struct poll_result *s)
{
	if (p->excused) {
		p->excused--;
	} else if (p->given_up) {
		p->given_up--;
		add_count(&p->led->late, 1);
	} else if (!s->others) {
		add_count(&p->led->spurious, 1);
	}
}
