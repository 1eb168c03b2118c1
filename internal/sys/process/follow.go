package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"rdma_events/internal/sys/status"
	"rdma_events/internal/sys/wake"
)

// errOver ends the stream of a process that is no longer followed.
var errOver = errors.New("the supervisor has left the process")

// following has the state of the process that runs now. Two goroutines use it: that of
// Run, and that of the stream, which handles each message itself. To pass messages to
// the first one would take another switch between threads for each of them.
type following[M any] struct {
	Attempt[M]
	s     *Supervisor[M]
	p     instance
	ended chan struct{} // closed with the final message

	mu      sync.Mutex // guards what follows, and the Supervisor's status until over
	dog     watchdog
	running time.Time // when a Sign first reported that it runs; zero: none did
	end     Sign      // the process' final message; End nil: none yet
	over    bool      // no further message is handled
	leaving bool      // it is left to the kernel while it ends
}

// startFollowed starts a process. The first message waits until startFollowed returns.
func (s *Supervisor[M]) startFollowed(a Attempt[M], shared []*os.File) (*following[M], error) {
	t := s.spec.Timing
	f := &following[M]{
		Attempt: a, s: s, ended: make(chan struct{}),
	}
	f.dog = watchdog{busy: f.waitsFor, alive: f.Alive, limit: 1, stuck: t.Stuck, mono: s.mono, period: t.Beat}
	// Before the first message come the fork and the start, which have limits of their
	// own, and then the child opens its resource.
	f.dog.quiet = -int((3*t.Start + t.Load + t.Stuck) / t.Beat)
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	f.p, err = s.launch(a, shared, f.handle)
	return f, err
}

// follow waits until a process ends or ctx is done, and makes sure that it is gone. It
// calls started when the start is over.
func (s *Supervisor[M]) follow(ctx context.Context, f *following[M], started func()) decision {
	t := s.spec.Timing
	starting, slow := f.p.Started(), f.p.Slow()
	tick := wake.NewTicker(t.Beat, time.Time{}) // with those of the other processes, so that the host wakes once for all
	defer tick.Stop()
	by := causeNone
	for following := true; following && by == causeNone; {
		select {
		case <-f.p.Streamed():
			following = false
		case <-f.ended:
			following = false
		case <-starting:
			starting = nil
			f.allowOpening(int(t.Stuck / t.Beat))
			started()
		case <-slow:
			slow = nil
			s.logSlow(f)
			started() // other starts need not wait for it
		case <-tick.C:
			tick.Next()
			if slow == nil && starting != nil {
				s.showStep(f)
			}
			by = f.check()
		case <-ctx.Done():
			by = causeAsked
		}
	}
	started()
	gone := s.end(f, by)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	return s.decide(f, by, gone)
}

// logSlow logs that a start is slow, once until a process has run well.
func (s *Supervisor[M]) logSlow(f *following[M]) {
	level := slog.LevelWarn
	if s.slow {
		level = slog.LevelDebug
	}
	s.slow = true
	s.spec.Log.Log(context.Background(), level, fmt.Sprintf("%s is slow to start: %s after %v; it is killed after %v more",
		s.spec.Subject, f.p.Step(), s.spec.Timing.Start, s.spec.Timing.Load))
	s.showStep(f)
}

// showStep puts the step of a slow start into the status.
func (s *Supervisor[M]) showStep(f *following[M]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.status.State == status.StateStarting {
		s.setStatus(status.Status{State: status.StateStarting, Reason: s.status.Reason, Message: "slow to start: " + f.p.Step()})
	}
}

// allowOpening leaves the child some periods to open its resource. It has more time after
// the first message.
func (f *following[M]) allowOpening(periods int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dog.quiet = max(f.dog.quiet, -periods)
}

func (f *following[M]) check() cause {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dog.check()
}

// call returns the call that the child is in.
func (f *following[M]) call() Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Busy(nil)
}

// waitsFor returns the call that the child as a whole waits for. If only one thread waits,
// and in the kernel, then killing the child ends neither that call nor the wait, and ends
// all that the child still does.
func (f *following[M]) waitsFor() Call {
	return f.Busy(func(thread int) bool { return uninterruptible(f.p.PID(), thread) })
}

// handle passes on a message with the status that follows from it. It is called by the
// goroutine of the stream.
func (f *following[M]) handle(m M) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over || f.end.End != nil {
		return errOver
	}
	f.dog.beat()
	sign, last := f.Sign(m), f.s.status
	n := status.Status{State: last.State, Reason: last.Reason, Message: last.Message, PID: f.p.PID()}
	if sign.Running && f.running.IsZero() {
		f.running = time.Now()
		n = status.Status{State: status.StateRunning, Reason: status.ReasonOK, PID: n.PID}
	}
	f.s.status = f.s.counted(n)
	f.Take(m, f.s.status)
	if sign.End != nil {
		f.end = sign
		close(f.ended)
	}
	return nil
}

// end ends the process, and reports whether it is gone. It kills a process that hangs
// without asking it first. A process that ends while the kernel closes its resource is left
// to the kernel.
func (s *Supervisor[M]) end(f *following[M], by cause) bool {
	if by != causeHung && by != causeStuck {
		f.p.Ask()
		if closesWithin(s.spec.Timing.Grace, f.p.Done()) {
			return true
		}
		if s.leave(f, by) {
			return closesWithin(s.spec.Timing.Kill, f.p.Done())
		}
		s.spec.Log.Warn(fmt.Sprintf("%s did not close its %s within %v%s and is killed",
			s.spec.Subject, s.spec.Resource, s.spec.Timing.Grace, during(f.call())))
	}
	f.p.Kill()
	gone := closesWithin(s.spec.Timing.Kill, f.p.Done())
	if !gone {
		s.leave(f, by)
	}
	return gone
}

// leave leaves a process to the kernel that is about to end, if it has said why or the supervisor knows. It reports whether it
// does.
func (s *Supervisor[M]) leave(f *following[M], by cause) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leaving = s.spec.KernelCloses && s.exits(f.p.PID()) && (by != causeNone || f.end.End != nil)
	return f.leaving
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

// decide returns what follows from the end of a process. The caller holds f.mu.
func (s *Supervisor[M]) decide(f *following[M], by cause, gone bool) decision {
	call := f.Busy(nil)
	if !f.running.IsZero() && s.restarts.RanWell(time.Since(f.running)) {
		s.lastLog, s.slow = "", false
	}
	var d decision
	switch {
	case !gone && f.leaving && by == causeNone:
		d.why, d.retry = *f.end.End, f.end.Retry
	case !gone && f.leaving:
		d.why, d.retry = explain(&s.spec, &report{}, by, call) // its report is not complete
	case !gone:
		d.left = f.p.Done()
		d.why = held(&s.spec, f.p.PID(), call)
	case f.end.End != nil && by == causeNone && !f.p.Report().couldNotClose():
		d.why, d.retry = *f.end.End, f.end.Retry
	default:
		r := f.p.Report()
		if r.faulted() {
			call = f.Faulted()
		}
		if d.why, d.retry = explain(&s.spec, r, by, call); d.why.Reason != status.ReasonLimit {
			d.trace = r.trace()
		}
	}
	// A crash is an unexpected end. The end of a process is no crash if it never ran, was
	// asked to end, or lost its resource.
	if !f.running.IsZero() && by != causeAsked && d.retry != OnWake {
		s.crashes++
	}
	return d
}
