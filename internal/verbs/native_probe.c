//go:build linux && cgo

#include "native_lib.h"

// STRAYS bounds how many events of other rounds are taken in a row. There are more
// than one per round only where a device makes them without end.
enum { STRAYS = 64 };

// seen is what one read of the completion channel brought.
struct seen {
	int mine;   // the round's own completion was among them
	int others; // completions of rounds given up
	enum ibv_wc_status status;
};

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

struct result prepare_flush(struct probe *p)
{
	// siw refuses a receive without an element; one of length 0 needs no memory region.
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
		drop_qp(p); // the first error is the one that says why
	return r;
}

static struct result start_round(struct probe *p, int64_t t)
{
	struct ibv_send_wr wr = { .send_flags = IBV_SEND_SIGNALED, .opcode = IBV_WR_RDMA_WRITE };
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };
	struct ibv_send_wr *bad;
	enum call call = C_POST_SEND;
	int err;

	if (p->c.method == M_UD_SEND) {
		wr.opcode = IBV_WR_SEND;
		wr.wr.ud.ah = p->ah;
		wr.wr.ud.remote_qpn = p->qp->qp_num;
		wr.wr.ud.remote_qkey = QKEY;
	}
	if (p->c.method == M_FLUSH)
		call = C_MODIFY_QP;
	else
		wr.wr_id = ++p->round;
	enter(&p->led->lane, call, t);
	err = call == C_MODIFY_QP ? lib.modify_qp(p->qp, &a, IBV_QP_STATE) : ibv_post_send(p->qp, &wr, &bad);
	leave(&p->led->lane);
	return err ? failed(call, err) : (struct result){ 0 };
}

// take polls the CQ until it is empty.
static int take(struct probe *p, struct seen *s)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(p->cq, 1, &wc)) > 0) {
		if (wc.wr_id != p->round) {
			s->others++;
			continue;
		}
		s->mine = 1;
		s->status = wc.status;
	}
	return n < 0 ? EIO : 0;
}

// next_event reads one completion event, drains the CQ, arms it and drains it
// again. The arm of some devices carries the consumer index (mlx5): armed before
// the drain they announce once more what has been announced already. What comes
// between the first drain and the arm makes no event on others, and so the second
// drain looks for it. EAGAIN: there is no event.
static struct result next_event(struct probe *p, struct seen *s, struct round *out)
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

// An event that brought nothing of this round belongs to one given up, or to
// none: the latter is legal (a completion drained before its event was read).
static void count_stray(struct probe *p, const struct seen *s)
{
	if (p->given_up) {
		p->given_up--;
		add(&p->led->late, 1);
	} else if (!s->others) {
		add(&p->led->spurious, 1);
	}
}

// clear takes the events of rounds before. It runs right before the post, since an
// event that came in the pause would else be taken for the wake-up of the round.
static struct result clear(struct probe *p)
{
	struct round unused = { 0 };
	struct result r = { 0 };
	struct seen s;
	int i;

	for (i = 0; i < STRAYS; i++) {
		r = next_event(p, &s, &unused);
		if (r.err)
			break;
		count_stray(p, &s);
	}
	return r.err == EAGAIN ? (struct result){ 0 } : r;
}

// verdict is the outcome of a round whose completion came with its event. The
// flush method means its completion to be flushed.
static int verdict(const struct probe *p, const struct seen *s, struct round *out)
{
	enum ibv_wc_status good = p->c.method == M_FLUSH ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS;

	out->wc_status = s->status;
	return s->status == good ? O_SUCCESS : O_ERROR;
}

// forget_times is for a round without an event of its own: what times there are,
// another round's event has left.
static void forget_times(struct round *out)
{
	out->wake = out->get = out->arm = out->drain = out->hold = out->ack = out->total = 0;
}

static int failed_round(struct round *out, struct result r)
{
	forget_times(out);
	out->err = r.err;
	out->call = r.call;
	return O_ERROR;
}

// poll_and_arm polls and arms the CQ anew, since after a round without an event it
// may be armed or not. The arm of some providers is done by the next poll
// (bnxt_re up to rdma-core 45, ionic), and so that follows at once.
static struct result poll_and_arm(struct probe *p, struct seen *s)
{
	int err = PROBE_CALL(p, C_POLL_CQ, take(p, s));

	if (err)
		return failed(C_POLL_CQ, err);
	err = PROBE_CALL(p, C_REQ_NOTIFY_CQ, ibv_req_notify_cq(p->cq, 0));
	if (err)
		return failed(C_REQ_NOTIFY_CQ, err);
	err = PROBE_CALL(p, C_POLL_CQ, take(p, s));
	return err ? failed(C_POLL_CQ, err) : (struct result){ 0 };
}

// look_last is for a round whose deadline has passed: an event in the channel
// is taken yet; else one poll tells an event that was lost from a completion
// that never came.
static int look_last(struct probe *p, struct round *out)
{
	struct result r = { 0 };
	struct seen s;
	int i;

	for (i = 0; i < STRAYS; i++) {
		r = next_event(p, &s, out);
		if (r.err)
			break;
		if (s.mine)
			return verdict(p, &s, out);
		count_stray(p, &s);
	}
	s = (struct seen){ 0 };
	forget_times(out);
	p->given_up++;
	if (!r.err || r.err == EAGAIN)
		r = poll_and_arm(p, &s);
	if (r.err)
		return failed_round(out, r);
	out->wc_status = s.mine ? s.status : 0;
	return s.mine ? O_LOST_EVENT : O_LOST_COMPLETION;
}

// wait_round looks before it waits: a device in software has often completed
// within the post, and then waiting on two descriptors would be a tenth of the
// latency.
static int wait_round(struct probe *p, struct round *out)
{
	int64_t until = out->start + p->c.timeout_ns;
	struct result r;
	struct seen s;
	int err;

	for (;;) {
		r = next_event(p, &s, out);
		if (!r.err && s.mine)
			return verdict(p, &s, out);
		if (r.err && r.err != EAGAIN)
			return failed_round(out, r);
		if (!r.err)
			count_stray(p, &s);
		// A channel that is never empty would put the deadline off.
		err = !r.err && now() >= until ? ETIMEDOUT : await(p->d, p->channel->fd, until);
		if (err == ECANCELED)
			return O_CANCELED;
		if (err == ETIMEDOUT)
			return look_last(p, out);
		if (err)
			return failed_round(out, failed(C_GET_CQ_EVENT, err));
	}
}

static void count(struct probe *p, int outcome, uint64_t n)
{
	switch (outcome) {
	case O_SUCCESS: add(&p->led->successes, n); break;
	case O_ERROR: add(&p->led->errors, n); break;
	case O_LOST_EVENT: add(&p->led->lost_events, n); break;
	case O_LOST_COMPLETION: add(&p->led->lost_completions, n); break;
	}
	add(&p->led->rounds, n);
}

static void count_round(struct probe *p, int outcome)
{
	if (outcome == O_CANCELED)
		return;
	if (p->c.trial)
		p->held[outcome]++;
	else
		count(p, outcome, 1);
}

void native_probe_keep(struct probe *p)
{
	int i;

	p->c.trial = 0;
	for (i = 0; i < O_CANCELED; i++) {
		if (p->held[i])
			count(p, i, p->held[i]);
		p->held[i] = 0;
	}
}

// tidy ends a round: the flush method's queue pair is used up, the ud_send
// method's receive is posted again. A round that the device's close canceled
// stays one, since nothing counts it.
static void tidy(struct probe *p, struct round *out)
{
	struct ibv_wc wc;

	if (p->c.method == M_FLUSH) {
		struct result r = drop_qp(p);
		if (r.err && !out->err && out->outcome != O_CANCELED) {
			out->err = r.err;
			out->call = r.call;
			out->outcome = O_ERROR;
		}
	}
	while (p->recv_cq && ibv_poll_cq(p->recv_cq, 1, &wc) > 0)
		if (wc.status || post_ud_receive(p))
			break;
}

void native_probe_nudge(struct probe *p)
{
	wake_up(p->nudge);
}

// paused reports whether the pause went by undisturbed.
static int paused(struct probe *p, int64_t pause_ns)
{
	int err = pause_ns > 0 ? await(p->d, p->nudge, now() + pause_ns) : ETIMEDOUT;

	if (!err)
		drained(p->nudge);
	return err == ETIMEDOUT;
}

// one_round pauses before anything that may fail has its effect: a caller whose
// rounds fail at once would else come back at once. A probe that could not even
// begin is not usable, and so the making of another one is paced as well.
static void one_round(struct probe *p, int64_t pause_ns, struct round *out)
{
	struct result r = { 0 };

	*out = (struct round){ .outcome = O_ERROR };
	if (p->c.method == M_FLUSH && !p->qp)
		r = prepare_flush(p);
	if (!paused(p, pause_ns)) {
		out->outcome = O_CANCELED;
		out->usable = 1;
		return;
	}
	if (!r.err)
		r = clear(p);
	out->start = now();
	out->usable = !r.err && p->c.method == M_FLUSH;
	if (!r.err)
		r = start_round(p, out->start);
	out->err = r.err;
	out->call = r.call;
	if (!r.err)
		out->outcome = wait_round(p, out);
	tidy(p, out);
	count_round(p, out->outcome);
	out->usable |= out->outcome != O_ERROR;
}

int native_probe_rounds(struct probe *p, int64_t pause_ns, int64_t interval_ns, int64_t for_ns,
			struct round *out, int cap)
{
	int64_t due = now() + pause_ns, last = due + for_ns, t = now();
	int n = 0;

	for (;;) {
		one_round(p, due - t, &out[n]);
		if (out[n++].outcome != O_SUCCESS || n == cap || interval_ns <= 0)
			return n;
		t = now();
		due += interval_ns;
		if (due < t)
			due += (t - due) / interval_ns * interval_ns;
		if (due > last)
			return n;
	}
}
