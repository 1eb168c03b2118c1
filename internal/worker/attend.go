package worker

import (
	"context"
	"fmt"
	"time"

	"rdma_events/internal/ledger"
	"rdma_events/internal/status"
	"rdma_events/internal/verbs"
)

// life is the supervisor's view of the worker that runs now.
type life struct {
	p      process
	dog    watchdog
	opened time.Time   // zero until the device was opened
	ended  *status.End // the worker's own word
	by     cause
}

// attend passes on what the worker sends until its end, or until ctx is done,
// and makes sure that it is gone. It calls started when the start is over.
func (s *Supervisor) attend(ctx context.Context, p process, led *ledger.Ledger, started func()) verdict {
	t := s.cfg.Timing
	period := t.Beat / looksPerBeat
	l := &life{p: p, dog: watchdog{led: led, limit: looksPerBeat, stuck: t.Stuck, mono: s.mono}}
	// Before the first batch there are the fork and the start, which have limits of
	// their own, and then the device is opened.
	starting := p.Started()
	l.dog.quiet = -int((3*t.Start + t.Stuck) / period)
	tick := time.NewTicker(period)
	defer tick.Stop()
	for streaming := true; streaming && l.by == causeNone && l.ended == nil; {
		select {
		case b, ok := <-p.Batches():
			if streaming = ok; ok {
				s.take(l, b)
			}
		case <-starting:
			starting = nil
			l.dog.quiet = max(l.dog.quiet, -int(t.Stuck/period)) // more after the first batch
			started()
		case <-tick.C:
			l.by = l.dog.look()
		case <-ctx.Done():
			l.by = causeAsked
		}
	}
	started()
	gone := s.end(l)
	return s.judge(l, gone)
}

func (s *Supervisor) take(l *life, b verbs.Batch) {
	l.dog.beat()
	s.handler.Batch(b)
	n := status.Status{State: s.status.State, Reason: s.status.Reason, Message: s.status.Message, PID: l.p.PID()}
	for i := range b.Items {
		if b.Items[i].Opened != nil && l.opened.IsZero() {
			l.opened = time.Now()
			n = status.Status{State: status.StateRunning, Reason: status.ReasonOK, PID: n.PID}
		}
		if b.Items[i].Ended != nil {
			l.ended = b.Items[i].Ended
		}
	}
	s.setStatus(n)
}

// end reports whether the worker is gone. One that hangs is not asked first.
func (s *Supervisor) end(l *life) bool {
	if l.by != causeHung && l.by != causeStuck {
		l.p.Ask()
		if within(s.cfg.Timing.Grace, l.p.Done()) {
			return true
		}
		s.cfg.Log.Warn(fmt.Sprintf("worker of %s did not close its device within %v%s and is killed",
			s.device, s.cfg.Timing.Grace, during(l.dog.busy().Call)))
	}
	l.p.Kill()
	return within(s.cfg.Timing.Kill, l.p.Done())
}

func within(d time.Duration, done <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

func (s *Supervisor) judge(l *life, gone bool) verdict {
	call := l.dog.busy().Call
	if !l.opened.IsZero() && time.Since(l.opened) >= s.cfg.Timing.Well {
		s.backoff.reset()
		s.said = ""
	}
	var v verdict
	switch {
	case !gone:
		v.left = l.p.Done()
		v.why = held(s.device, l.p.PID(), call)
	case l.ended != nil && l.by == causeNone && !l.p.Report().couldNotClose():
		v.why, v.then = *l.ended, retryAfter(l.ended.Reason)
	default:
		r := l.p.Report()
		if v.why, v.then = explain(s.device, r, l.by, call); v.why.Reason != status.ReasonLimit {
			v.trace = r.trace()
		}
	}
	if isCrash(l, v.why.Reason) {
		s.crashes++
	}
	return v
}

// isCrash reports whether the end of a worker is a disturbance: not that of one that
// was refused the device, nor of one that was to end or whose device has gone.
func isCrash(l *life, why status.Reason) bool {
	return !l.opened.IsZero() && l.by != causeAsked && retryAfter(why) != retryOnWake
}

func retryAfter(why status.Reason) retry {
	switch why {
	case status.ReasonRemoved, status.ReasonRenamed:
		return retryOnWake
	case status.ReasonNoLibrary, status.ReasonNoPermission, status.ReasonNoDevice,
		status.ReasonUnsupported, status.ReasonExcludedNetns, status.ReasonLimit:
		return retrySlowly
	}
	return retrySoon
}
