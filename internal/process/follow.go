package process

import (
	"context"
	"fmt"
	"time"

	"rdma_events/internal/status"
)

// following is what the Supervisor knows of the process that runs now.
type following[M any] struct {
	Attempt[M]
	p       instance[M]
	dog     watchdog
	running time.Time // zero until a Sign said so
	end     Sign      // the process' final message; End nil: none yet
	by      cause
}

// follow hands on what a process sends until its end, or until ctx is done, and
// makes sure that it is gone. It calls started when the start is over.
func (s *Supervisor[M]) follow(ctx context.Context, p instance[M], a Attempt[M], started func()) decision {
	t := s.spec.Timing
	period := t.Beat / checksPerBeat
	f := &following[M]{Attempt: a, p: p, dog: watchdog{busy: a.Busy, limit: checksPerBeat, stuck: t.Stuck, mono: s.mono}}
	// Before the first message there are the fork and the start, which have limits of
	// their own, and then the child opens what it holds.
	starting := p.Started()
	f.dog.quiet = -int((3*t.Start + t.Stuck) / period)
	tick := time.NewTicker(period)
	defer tick.Stop()
	for streaming := true; streaming && f.by == causeNone && f.end.End == nil; {
		select {
		case m, ok := <-p.Messages():
			if streaming = ok; ok {
				s.take(f, m)
			}
		case <-starting:
			starting = nil
			f.dog.quiet = max(f.dog.quiet, -int(t.Stuck/period)) // more after the first message
			started()
		case <-tick.C:
			f.by = f.dog.check()
		case <-ctx.Done():
			f.by = causeAsked
		}
	}
	started()
	gone := s.end(f)
	return s.decide(f, gone)
}

// take hands on a message with the status that follows from it.
func (s *Supervisor[M]) take(f *following[M], m M) {
	f.dog.beat()
	sign := f.Sign(m)
	n := status.Status{State: s.status.State, Reason: s.status.Reason, Message: s.status.Message, PID: f.p.PID()}
	if sign.Running && f.running.IsZero() {
		f.running = time.Now()
		n = status.Status{State: status.StateRunning, Reason: status.ReasonOK, PID: n.PID}
	}
	if sign.End != nil {
		f.end = sign
	}
	s.status = s.counted(n)
	f.Take(m, s.status)
}

// end reports whether the process is gone. One that hangs is not asked first.
func (s *Supervisor[M]) end(f *following[M]) bool {
	if f.by != causeHung && f.by != causeStuck {
		f.p.Ask()
		if closesWithin(s.spec.Timing.Grace, f.p.Done()) {
			return true
		}
		s.spec.Log.Warn(fmt.Sprintf("%s did not close its %s within %v%s and is killed",
			s.spec.Subject, s.spec.Resource, s.spec.Timing.Grace, during(f.Busy())))
	}
	f.p.Kill()
	return closesWithin(s.spec.Timing.Kill, f.p.Done())
}

func closesWithin(d time.Duration, done <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

func (s *Supervisor[M]) decide(f *following[M], gone bool) decision {
	call := f.Busy()
	if !f.running.IsZero() && time.Since(f.running) >= s.spec.Timing.Well {
		s.backoff.reset()
		s.lastLog = ""
	}
	var d decision
	switch {
	case !gone:
		d.left = f.p.Done()
		d.why = held(&s.spec, f.p.PID(), call)
	case f.end.End != nil && f.by == causeNone && !f.p.Report().couldNotClose():
		d.why, d.retry = *f.end.End, f.end.Retry
	default:
		r := f.p.Report()
		if d.why, d.retry = explain(&s.spec, r, f.by, call); d.why.Reason != status.ReasonLimit {
			d.trace = r.trace()
		}
	}
	// A crash is a disturbance: not the end of a process that never ran, nor of one
	// that was to end or whose resource has gone.
	if !f.running.IsZero() && f.by != causeAsked && d.retry != OnWake {
		s.crashes++
	}
	return d
}
