//go:build linux && cgo

#include "native_lib.h"

#include <sys/prctl.h>

// MAX_STRAYS is the largest number of events of other rounds that are read in a row. Only a
// device that raises events without end has more than one per round.
enum { MAX_STRAYS = 64 };

// A wait for an event is split into slices of SLICE_NS, after which the thread checks the clock.
// If it wakes LATE_NS too late, neither the thread nor the rest of the host has run: the guest was
// paused, or the process was stopped. A CPU quota stops a process for less time, since its period
// is 100 ms by default (Documentation/scheduler/sched-bwc.rst).
static const int64_t SLICE_NS = 100000000, LATE_NS = 500000000;
// SUSPENDED_NS is the time that CLOCK_BOOTTIME must gain on CLOCK_MONOTONIC in a round for the
// host to count as suspended. Otherwise the two clocks run alike.
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
	enter_call(&p->led->thread, call, t);
	err = call == C_MODIFY_QP ? lib.modify_qp(p->qp, &a, IBV_QP_STATE) : ibv_post_send(p->qp, &wr, &bad);
	leave_call(&p->led->thread);
	return err ? failed(call, err) : (struct result){ 0 };
}

// clear_events reads the events of earlier rounds. It runs right before the post, since an event
// that came during the pause would otherwise be taken for the wake-up of the round. If the device
// has flushed the receive of the flush method by itself, clear_events replaces the queue pair: siw
// of Linux 6.1 flushes all queue pairs when its netdev goes down (siw_netdev_down in siw_main.c;
// 6.12 does not any more).
static struct result clear_events(struct probe *p)
{
	struct round unused = { 0 };
	struct result r = { 0 };
	struct poll_result s;
	int i, flushed = 0;

	for (i = 0; i < MAX_STRAYS; i++) {
		r = read_cq_event(p, &s, &unused);
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

// outcome_of returns the outcome of a round whose completion came with its event. The
// flush method expects its completion to be flushed.
static int outcome_of(const struct probe *p, const struct poll_result *s, struct round *out)
{
	enum ibv_wc_status good = p->c.method == M_FLUSH ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS;

	out->wc_status = s->status;
	return s->status == good ? O_SUCCESS : O_ERROR;
}

// clear_times clears the times of a round without an event of its own, which the event of
// another round has set.
static void clear_times(struct round *out)
{
	out->wake = out->get = out->arm = out->drain = out->hold = out->ack = out->total = 0;
}

static int failed_round(struct round *out, struct result r)
{
	clear_times(out);
	out->err = r.err;
	out->call = r.call;
	return O_ERROR;
}

// poll_and_arm polls the CQ and arms it again, since it may be armed or not after a round
// without an event. Some providers arm only in the next poll (bnxt_re up to rdma-core 45,
// ionic), so another poll follows at once.
static struct result poll_and_arm(struct probe *p, struct poll_result *s)
{
	int err = PROBE_CALL(p, C_POLL_CQ, poll_completions(p, s));

	if (err)
		return failed(C_POLL_CQ, err);
	err = PROBE_CALL(p, C_REQ_NOTIFY_CQ, ibv_req_notify_cq(p->cq, 0));
	if (err)
		return failed(C_REQ_NOTIFY_CQ, err);
	err = PROBE_CALL(p, C_POLL_CQ, poll_completions(p, s));
	return err ? failed(C_POLL_CQ, err) : (struct result){ 0 };
}

// unsent returns the outcome of a round whose datagram the device failed to send.
static int unsent(struct probe *p, struct round *out)
{
	clear_times(out);
	out->wc_status = p->send_status;
	return O_ERROR;
}

// poll_halfway polls after half of the timeout of a ud_send round. The device repeats a lost
// write, but not a lost datagram. The round therefore sends a second datagram if the send has
// completed and the receive has not.
static struct result poll_halfway(struct probe *p, struct poll_result *early)
{
	int err = PROBE_CALL(p, C_POLL_CQ, poll_completions(p, early));

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
		add_count(&p->led->resent, 1);
	return post_datagram(p, p->sent_again);
}

// poll_last ends a round whose deadline has passed, and returns its outcome. It still reads an
// event that is in the channel. Without an event, a poll decides whether the event or the
// completion was lost. early is the result of poll_halfway.
static int poll_last(struct probe *p, const struct poll_result *early, struct round *out)
{
	struct result r = { 0 };
	struct poll_result s;
	int i;

	for (i = 0; i < MAX_STRAYS; i++) {
		r = read_cq_event(p, &s, out);
		if (r.err)
			break;
		if (s.mine || early->mine)
			return outcome_of(p, s.mine ? &s : early, out);
		count_stray(p, &s);
	}
	s = (struct poll_result){ 0 };
	clear_times(out);
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

// await_event waits for an event, as await does, and marks the round as disturbed if the thread
// wakes too late.
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

// posted_late reports whether the post of a round took so long that its deadline is useless. A post
// that is no firmware command never waits, so the host must have been paused.
static int posted_late(struct probe *p, const struct round *out)
{
	if (now() - out->start <= LATE_NS)
		return 0;
	p->disturbed |= p->c.method != M_FLUSH;
	return 1;
}

// wait_round waits for the event of a round and returns the outcome. It checks for an event before
// it waits: a software device has often completed within the post, and waiting on two descriptors
// would then be a tenth of the latency. After a pause of the host the device gets its full time
// again.
static int wait_round(struct probe *p, struct round *out, int64_t *deadline)
{
	int64_t until = posted_late(p, out) ? now() + p->c.timeout_ns : *deadline;
	int64_t look = p->send_cq ? until - p->c.timeout_ns / 2 : until;
	struct poll_result s, early = { 0 };
	int extended = 0, err;
	struct result r;

	*deadline = until;
	for (;;) {
		r = read_cq_event(p, &s, out);
		if (!r.err && (s.mine || early.mine))
			return outcome_of(p, s.mine ? &s : &early, out);
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
			r = poll_halfway(p, &early);
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

static void count_outcome(struct probe *p, int outcome, uint64_t n)
{
	switch (outcome) {
	case O_SUCCESS: add_count(&p->led->successes, n); break;
	case O_ERROR: add_count(&p->led->errors, n); break;
	case O_LOST_EVENT: add_count(&p->led->lost_events, n); break;
	case O_LOST_COMPLETION: add_count(&p->led->lost_completions, n); break;
	case O_DISTURBED: add_count(&p->led->disturbed, n); break;
	}
	add_count(&p->led->rounds, n);
}

static void count_round(struct probe *p, int outcome)
{
	if (outcome == O_CANCELED)
		return;
	if (p->c.trial)
		p->held[outcome]++;
	else
		count_outcome(p, outcome, 1);
}

void native_probe_keep(struct probe *p)
{
	int i;

	p->c.trial = 0;
	for (i = 0; i < O_CANCELED; i++) {
		if (p->held[i])
			count_outcome(p, i, p->held[i]);
		p->held[i] = 0;
	}
	if (p->held_resent)
		add_count(&p->led->resent, p->held_resent);
	p->held_resent = 0;
	if (p->last.outcome != O_CANCELED)
		publish_round(p, &p->last);
	p->last.outcome = O_CANCELED;
}

// end_datagrams ends a round of datagrams. It destroys the address handle once the send has
// completed or the deadline has passed. A receive that cannot be posted now is posted after the
// next round.
static struct result end_datagrams(struct probe *p, int64_t until)
{
	finish_sends(p, until);
	fill_receives(p);
	return p->c.keep_handle ? (struct result){ 0 } : drop_address(p);
}

// clean_up_round destroys the objects of a round: the flush method's queue pair, or the ud_send
// method's address handle. If that fails, the outcome becomes an error, except for a round that the
// close of the device has canceled, which is not counted.
static void clean_up_round(struct probe *p, struct round *out, int64_t until)
{
	struct result r = { 0 };

	if (p->c.method == M_FLUSH)
		r = drop_qp(p);
	if (p->c.method == M_UD_SEND)
		r = end_datagrams(p, until);
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

// wait_pause waits for the pause and reports whether it ended by itself.
static int wait_pause(struct probe *p, int64_t pause_ns)
{
	int err = pause_ns > 0 ? await(p->d, p->nudge, now() + pause_ns) : ETIMEDOUT;

	if (!err)
		clear_eventfd(p->nudge);
	return err == ETIMEDOUT;
}

// was_suspended reports whether the host was suspended since CLOCK_BOOTTIME was ahead of
// CLOCK_MONOTONIC by ahead. Preemption between the two readings only makes the gain smaller.
static int was_suspended(int64_t ahead)
{
	int64_t boot = read_clock(CLOCK_BOOTTIME);

	return boot - now() - ahead > SUSPENDED_NS;
}

// apply_disturbance sets the outcome of a round to O_DISTURBED if the round was disturbed: its own
// outcome says nothing about the device.
static void apply_disturbance(struct probe *p, struct round *out)
{
	if (!p->disturbed || out->outcome == O_CANCELED)
		return;
	if (out->outcome == O_LOST_EVENT || out->outcome == O_LOST_COMPLETION) {
		p->given_up--;
		p->excused++;
	}
	clear_times(out);
	out->outcome = O_DISTURBED;
	out->err = out->wc_status = 0;
}

// run_round runs one round. It pauses before it acts on any failure, since otherwise a caller whose
// rounds fail at once would repeat them without a pause. A probe whose round could not begin is not
// usable, so that the creation of another probe is paced as well.
static void run_round(struct probe *p, int64_t pause_ns, struct round *out)
{
	struct result r = { 0 };
	int64_t until, ahead;

	*out = (struct round){ .outcome = O_ERROR };
	p->usable = 0;
	p->disturbed = 0;
	if (p->c.method == M_FLUSH && !p->qp)
		r = prepare_flush(p);
	if (!wait_pause(p, pause_ns)) {
		out->outcome = O_CANCELED;
		p->usable = 1;
		return;
	}
	ahead = now(); // read first: a preemption must not make the host seem suspended
	ahead = read_clock(CLOCK_BOOTTIME) - ahead;
	if (!r.err && p->c.method == M_UD_SEND) {
		r = hold_address(p);
		if (missing_address(p, r)) { // no round takes place, and the device is not at fault
			*out = (struct round){ .outcome = O_CANCELED, .err = r.err, .call = r.call };
			p->usable = p->unanswered;
			return;
		}
	}
	if (!r.err)
		r = clear_events(p);
	out->start = now();
	until = out->start + p->c.timeout_ns;
	p->usable = !r.err && p->c.method == M_FLUSH;
	if (!r.err)
		r = start_round(p, out->start);
	out->err = r.err;
	out->call = r.call;
	if (!r.err)
		out->outcome = wait_round(p, out, &until);
	clean_up_round(p, out, until);
	p->usable |= out->outcome != O_ERROR;
	p->disturbed |= was_suspended(ahead);
	if (!p->disturbed)
		p->excused = 0; // events of disturbed rounds that come later still are late
	apply_disturbance(p, out);
	count_round(p, out->outcome);
}

int native_probe_rounds(struct probe *p, int64_t pause_ns, int64_t interval_ns, int64_t for_ns,
			struct round *last, int *usable)
{
	int64_t due = now() + pause_ns, end = due + for_ns, t = now();
	int n = 0;

	// The process may have a longer timer slack (prctl(2)), which is too long for a round each millisecond.
	prctl(PR_SET_TIMERSLACK, 50000);
	for (;;) {
		run_round(p, due - t, last);
		n++;
		if (p->c.trial)
			p->last = *last;
		else if (last->outcome != O_CANCELED)
			publish_round(p, last);
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
