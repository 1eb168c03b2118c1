//go:build linux && cgo

#include "native_lib.h"

#include <sys/prctl.h>

// STRAYS bounds how many events of other rounds are read in a row. More than one per
// round come only from a device that raises events without end.
enum { STRAYS = 64 };

// A wait for an event lasts SLICE_NS at most before the thread looks at the clock. A thread
// that then wakes LATE_NS late has not run, and nor has the rest of the host: the guest was
// paused, or the process was stopped. A quota of CPU time stops a process for less, since its
// period is 100 ms unless it was changed (Documentation/scheduler/sched-bwc.rst).
static const int64_t SLICE_NS = 100000000, LATE_NS = 500000000;
// SUSPENDED_NS is by how much CLOCK_BOOTTIME has to gain on CLOCK_MONOTONIC in a round until
// the host counts as suspended. Otherwise the two run alike.
static const int64_t SUSPENDED_NS = 10000000;

static struct result start_round(struct probe *p, int64_t t)
{
	struct ibv_send_wr wr = { .send_flags = IBV_SEND_SIGNALED, .opcode = IBV_WR_RDMA_WRITE };
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };
	struct ibv_send_wr *bad;
	enum call call = C_POST_SEND;
	int err;

	if (p->c.method == M_FLUSH)
		call = C_MODIFY_QP;
	else
		wr.wr_id = ++p->round;
	if (p->c.method == M_UD_SEND) {
		p->again = 0;
		p->send_status = IBV_WC_SUCCESS;
		return post_datagram(p, t);
	}
	enter(&p->led->lane, call, t);
	err = call == C_MODIFY_QP ? lib.modify_qp(p->qp, &a, IBV_QP_STATE) : ibv_post_send(p->qp, &wr, &bad);
	leave(&p->led->lane);
	return err ? failed(call, err) : (struct result){ 0 };
}

// clear reads the events of earlier rounds. It runs right before the post, since an
// event that came in the pause would otherwise be taken for the wake-up of the round.
// A receive of the flush method that a device has flushed by itself is replaced: siw of
// Linux 6.1 flushes all queue pairs when its netdev goes down (siw_netdev_down in
// siw_main.c; 6.12 has it no more).
static struct result clear(struct probe *p)
{
	struct round unused = { 0 };
	struct result r = { 0 };
	struct seen s;
	int i, flushed = 0;

	for (i = 0; i < STRAYS; i++) {
		r = next_event(p, &s, &unused);
		if (r.err)
			break;
		if (p->c.method == M_FLUSH && s.mine)
			flushed = 1;
		else
			count_stray(p, &s);
	}
	if (r.err && r.err != EAGAIN)
		return r;
	r = flushed ? drop_qp(p) : (struct result){ 0 };
	return flushed && !r.err ? prepare_flush(p) : r;
}

// decide returns the outcome of a round whose completion came with its event. The
// flush method expects its completion to be flushed.
static int decide(const struct probe *p, const struct seen *s, struct round *out)
{
	enum ibv_wc_status good = p->c.method == M_FLUSH ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS;

	out->wc_status = s->status;
	return s->status == good ? O_SUCCESS : O_ERROR;
}

// forget_times clears the times of a round without an event of its own: another
// round's event has set them.
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

// poll_and_arm polls the CQ and arms it again, since after a round without an event it
// may be armed or not. Some providers arm only in the next poll (bnxt_re up to rdma-core
// 45, ionic), so another poll follows at once.
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

// unsent returns the outcome of a round whose datagram the device failed to send.
static int unsent(struct probe *p, struct round *out)
{
	forget_times(out);
	out->wc_status = p->send_status;
	return O_ERROR;
}

// poll_between polls when half of the time of a round of datagrams is over. The device
// repeats a lost write, but not a lost datagram. So the round sends a second datagram if
// the send has completed and the receive has not.
static struct result poll_between(struct probe *p, struct seen *early)
{
	int err = PROBE_CALL(p, C_POLL_CQ, take(p, early));

	if (!err)
		err = poll_sends(p);
	if (err)
		return failed(C_POLL_CQ, err);
	if (early->mine || p->sends > 0 || p->send_status)
		return (struct result){ 0 };
	p->again = 1;
	p->sent_again = now();
	if (p->c.trial)
		p->held_resent++;
	else
		add(&p->led->resent, 1);
	return post_datagram(p, p->sent_again);
}

// poll_last ends a round whose deadline has passed. It still reads an event that is in
// the channel. Without one, a poll decides whether the event was lost or the completion
// never came. early is what poll_between found.
static int poll_last(struct probe *p, const struct seen *early, struct round *out)
{
	struct result r = { 0 };
	struct seen s;
	int i;

	for (i = 0; i < STRAYS; i++) {
		r = next_event(p, &s, out);
		if (r.err)
			break;
		if (s.mine)
			return decide(p, &s, out);
		count_stray(p, &s);
	}
	s = (struct seen){ 0 };
	forget_times(out);
	p->given_up++;
	if (!r.err || r.err == EAGAIN)
		r = poll_and_arm(p, &s);
	if (r.err)
		return failed_round(out, r);
	if (!s.mine && early->mine)
		s = *early;
	if (!s.mine && p->send_cq && !poll_sends(p) && p->send_status)
		return unsent(p, out);
	out->wc_status = s.mine ? s.status : 0;
	return s.mine ? O_LOST_EVENT : O_LOST_COMPLETION;
}

// await_event waits for an event, as await does, and notes when the thread woke too late.
static int await_event(struct probe *p, int64_t until)
{
	int64_t t = now(), due;
	int err;

	do {
		due = t + SLICE_NS < until ? t + SLICE_NS : until;
		if (due < t)
			due = t;
		err = await(p->d, p->channel->fd, due);
		t = now();
		if (t - due > LATE_NS)
			p->disturbed = 1;
	} while (err == ETIMEDOUT && due < until && !p->disturbed);
	return err;
}

// posted_late reports whether the post of a round took so long that its deadline is no use.
// A post that is no command does not wait: then the host was paused.
static int posted_late(struct probe *p, const struct round *out)
{
	if (now() - out->start <= LATE_NS)
		return 0;
	p->disturbed |= p->c.method != M_FLUSH;
	return 1;
}

// wait_round checks for an event before it waits: a software device has often completed
// within the post, and then waiting on two descriptors would be a tenth of the latency.
// After a pause the device has all of its time once more.
static int wait_round(struct probe *p, struct round *out, int64_t *deadline)
{
	int64_t until = posted_late(p, out) ? now() + p->c.timeout_ns : *deadline;
	int64_t look = p->send_cq ? until - p->c.timeout_ns / 2 : until;
	struct seen s, early = { 0 };
	int extended = 0, err;
	struct result r;

	*deadline = until;
	for (;;) {
		r = next_event(p, &s, out);
		if (!r.err && (s.mine || early.mine))
			return decide(p, s.mine ? &s : &early, out);
		if (r.err && r.err != EAGAIN)
			return failed_round(out, r);
		if (!r.err)
			count_stray(p, &s);
		// Without this check, a channel that is never empty would postpone the deadline.
		err = !r.err && now() >= look ? ETIMEDOUT : await_event(p, look);
		if (err == ECANCELED)
			return O_CANCELED;
		if (p->disturbed && !extended) {
			extended = 1;
			look = until = *deadline = now() + p->c.timeout_ns;
			if (err == ETIMEDOUT)
				continue;
		}
		if (err == ETIMEDOUT && look == until)
			return poll_last(p, &early, out);
		if (err == ETIMEDOUT) {
			look = until;
			r = poll_between(p, &early);
			if (r.err)
				return failed_round(out, r);
			if (p->send_status && !early.mine)
				return unsent(p, out);
			continue;
		}
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
	case O_DISTURBED: add(&p->led->disturbed, n); break;
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
	if (p->held_resent)
		add(&p->led->resent, p->held_resent);
	p->held_resent = 0;
	if (p->last.outcome != O_CANCELED)
		list_round(p, &p->last);
	p->last.outcome = O_CANCELED;
}

// release ends a round of datagrams. It destroys the address handle once the send is
// done or the deadline has passed. A receive that cannot be posted now is posted after
// the next round.
static struct result release(struct probe *p, int64_t until)
{
	finish_sends(p, until);
	fill_receives(p);
	return p->c.keep_handle ? (struct result){ 0 } : drop_address(p);
}

// tidy destroys what a round has used up: the flush method's queue pair, the ud_send
// method's address handle. A round that the device's close canceled stays canceled if
// that fails, since it is not counted.
static void tidy(struct probe *p, struct round *out, int64_t until)
{
	struct result r = { 0 };

	if (p->c.method == M_FLUSH)
		r = drop_qp(p);
	if (p->c.method == M_UD_SEND)
		r = release(p, until);
	if (r.err && !out->err && out->outcome != O_CANCELED) {
		out->err = r.err;
		out->call = r.call;
		out->outcome = O_ERROR;
	}
}

void native_probe_nudge(struct probe *p)
{
	wake_up(p->nudge);
}

// paused waits for the pause and reports whether it passed to its end.
static int paused(struct probe *p, int64_t pause_ns)
{
	int err = pause_ns > 0 ? await(p->d, p->nudge, now() + pause_ns) : ETIMEDOUT;

	if (!err)
		drained(p->nudge);
	return err == ETIMEDOUT;
}

// suspended reports whether the host was suspended since CLOCK_BOOTTIME was ahead of
// CLOCK_MONOTONIC by ahead. A thread that is preempted between the two readings sees less.
static int suspended(int64_t ahead)
{
	int64_t boot = read_clock(CLOCK_BOOTTIME);

	return boot - now() - ahead > SUSPENDED_NS;
}

// excuse makes a disturbed round one: whatever became of it says nothing about the device.
static void excuse(struct probe *p, struct round *out)
{
	if (!p->disturbed || out->outcome == O_CANCELED)
		return;
	if (out->outcome == O_LOST_EVENT || out->outcome == O_LOST_COMPLETION) {
		p->given_up--;
		p->excused++;
	}
	forget_times(out);
	out->outcome = O_DISTURBED;
	out->err = out->wc_status = 0;
}

// one_round pauses before it acts on any failure. Otherwise a caller whose rounds fail at
// once would repeat them without a pause. A probe whose round could not begin is not
// usable, so the making of another probe is paced as well.
static void one_round(struct probe *p, int64_t pause_ns, struct round *out)
{
	struct result r = { 0 };
	int64_t until, ahead;

	*out = (struct round){ .outcome = O_ERROR };
	p->usable = 0;
	p->disturbed = 0;
	if (p->c.method == M_FLUSH && !p->qp)
		r = prepare_flush(p);
	if (!paused(p, pause_ns)) {
		out->outcome = O_CANCELED;
		p->usable = 1;
		return;
	}
	ahead = now(); // read first: a preemption must not make the host seem suspended
	ahead = read_clock(CLOCK_BOOTTIME) - ahead;
	if (!r.err && p->c.method == M_UD_SEND) {
		r = hold_address(p);
		if (missing_address(p, r)) { // no round, and no fault of the device
			*out = (struct round){ .outcome = O_CANCELED, .err = r.err, .call = r.call };
			p->usable = p->unanswered;
			return;
		}
	}
	if (!r.err)
		r = clear(p);
	out->start = now();
	until = out->start + p->c.timeout_ns;
	p->usable = !r.err && p->c.method == M_FLUSH;
	if (!r.err)
		r = start_round(p, out->start);
	out->err = r.err;
	out->call = r.call;
	if (!r.err)
		out->outcome = wait_round(p, out, &until);
	tidy(p, out, until);
	p->usable |= out->outcome != O_ERROR;
	p->disturbed |= suspended(ahead);
	if (!p->disturbed)
		p->excused = 0; // what comes later than that is late
	excuse(p, out);
	count_round(p, out->outcome);
}

int native_probe_rounds(struct probe *p, int64_t pause_ns, int64_t interval_ns, int64_t for_ns,
			struct round *last, int *usable)
{
	int64_t due = now() + pause_ns, end = due + for_ns, t = now();
	int n = 0;

	// The process may have a longer slack (prctl(2)), which a round each millisecond would not bear.
	prctl(PR_SET_TIMERSLACK, 50000);
	for (;;) {
		one_round(p, due - t, last);
		n++;
		if (p->c.trial)
			p->last = *last;
		else if (last->outcome != O_CANCELED)
			list_round(p, last);
		*usable = p->usable;
		if (last->outcome != O_SUCCESS || interval_ns <= 0)
			return n;
		t = now();
		due += interval_ns;
		if (due < t)
			due += (t - due) / interval_ns * interval_ns;
		if (due > end)
			return n;
	}
}
