//go:build linux && cgo

#include "native_lib.h"

int acknowledge(struct probe *p, int64_t t)
{
	int n = p->unacked;

	if (!n)
		return 0;
	enter(&p->led->lane, C_ACK_CQ_EVENTS, t);
	lib.ack_cq_events(p->cq, n);
	leave(&p->led->lane);
	add(&p->led->acked, n);
	p->unacked = 0;
	return n;
}

// own reports whether a completion is the round's. A receive that failed counts as the
// round's, since it has no datagram that identifies a round.
static int own(const struct probe *p, const struct ibv_wc *wc)
{
	if (p->c.method != M_UD_SEND)
		return wc->wr_id == p->round;
	return wc->status || (wc->imm_data | 1) == (datagram(p) | 1);
}

int take(struct probe *p, struct seen *s)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(p->cq, 1, &wc)) > 0) {
		if (p->c.method == M_UD_SEND)
			p->receives--;
		if (!own(p, &wc)) {
			s->others++;
			continue;
		}
		s->mine = 1;
		s->status = wc.status;
		s->second = p->again && (wc.imm_data & 1);
	}
	return n < 0 ? EIO : 0;
}

// next_event reads one completion event, drains the CQ, arms it and drains it again.
// On some devices the arm carries the consumer index (mlx5): armed before the drain,
// they announce the same completions once more. On other devices a completion between
// the first drain and the arm raises no event, so the second drain polls it. EAGAIN:
// there is no event.
struct result next_event(struct probe *p, struct seen *s, struct round *out)
{
	struct ledger_lane *lane = &p->led->lane;
	struct ibv_cq *cq;
	void *context;
	int64_t before = now(), got, polled, armed, drained;
	int err;

	*s = (struct seen){ 0 };
	enter(lane, C_GET_CQ_EVENT, before);
	if (lib.get_cq_event(p->channel, &cq, &context)) {
		err = errno;
		leave(lane);
		return failed(C_GET_CQ_EVENT, err);
	}
	got = now();
	add(&p->led->events, 1);
	if (!p->unacked++)
		p->oldest = got;
	enter(lane, C_POLL_CQ, got);
	err = take(p, s);
	if (err) {
		leave(lane);
		return failed(C_POLL_CQ, err);
	}
	polled = now();
	enter(lane, C_REQ_NOTIFY_CQ, polled);
	err = ibv_req_notify_cq(cq, 0);
	if (err) {
		leave(lane);
		return failed(C_REQ_NOTIFY_CQ, err);
	}
	armed = now();
	enter(lane, C_POLL_CQ, armed);
	err = take(p, s);
	drained = now();
	leave(lane);
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

// count_stray counts an event without a completion of this round. It belongs to a round
// that was given up, or to no round. The latter is legal: a completion may be drained
// before its event is read. The event of a disturbed round is neither late nor spurious.
void count_stray(struct probe *p, const struct seen *s)
{
	if (p->excused) {
		p->excused--;
	} else if (p->given_up) {
		p->given_up--;
		add(&p->led->late, 1);
	} else if (!s->others) {
		add(&p->led->spurious, 1);
	}
}
