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

// errOver ends the stream of a process that the Supervisor no longer follows.
var errOver = errors.New("the supervisor has left the process")

// following has the state of the running process. Two goroutines use it: the goroutine of Run,
// and the goroutine of the stream, which handles the messages itself. Passing the messages to
// the goroutine of Run would take an additional thread switch for each message.
type following[M any] struct {
	Attempt[M]
	s     *Supervisor[M]
	p     instance
	ended chan struct{} // closed with the final message

	mu       sync.Mutex // guards the fields below and, until over, the status of the Supervisor
	watchdog watchdog
	running  time.Time // when a Sign first reported that the process runs; zero: not yet
	end      Sign      // from the final message of the process; End is nil before
	over     bool      // no further messages are handled
	leaving  bool      // the process is ending, and is left to the kernel
}

// startFollowed starts a process. It delays the first message until it returns.
func (s *Supervisor[M]) startFollowed(a Attempt[M], shared []*os.File) (*following[M], error) {
	t := s.spec.Timing
	f := &following[M]{
		Attempt: a, s: s, ended: make(chan struct{}),
	}
	f.watchdog = watchdog{busy: f.waitsFor, alive: f.Alive, limit: 1, stuck: t.Stuck, mono: s.mono, period: t.Beat}
	// Before the first message, the fork and the start have limits of their own, and the child
	// then opens its resource.
	f.watchdog.quiet = -int((3*t.Start + t.Load + t.Stuck) / t.Beat)
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	f.p, err = s.launch(a, shared, f.handle)
	return f, err
}

// follow waits until a process ends or ctx is done, and then ends the process. It calls
// started when the start is over.
func (s *Supervisor[M]) follow(ctx context.Context, f *following[M], started func()) decision {
	t := s.spec.Timing
	starting, slow := f.p.Started(), f.p.Slow()
	tick := wake.NewTicker(t.Beat, time.Time{}) // at the same times as for other processes, so that the host wakes once for all
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
			started() // do not delay other starts
		case <-tick.C:
			tick.Next()
			if slow == nil && starting != nil {
				s.showStep(f)
			}
			by = f.check()
		case <-ctx.Done():
			by = causeShutdown
		}
	}
	started()
	gone := s.endProcess(f, by)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	return s.decide(f, by, gone)
}

// logSlow logs that a start is slow. Until a process has run well, it logs only once.
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

// showStep reports the step of a slow start in the status.
func (s *Supervisor[M]) showStep(f *following[M]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.status.State == status.StateStarting {
		s.setStatus(status.Status{State: status.StateStarting, Reason: s.status.Reason, Message: "slow to start: " + f.p.Step()})
	}
}

// allowOpening gives the child a number of watchdog periods to open its resource.
func (f *following[M]) allowOpening(periods int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watchdog.quiet = max(f.watchdog.quiet, -periods)
}

// check runs the watchdog.
func (f *following[M]) check() cause {
	f.mu.Lock()
	defer f.mu.Unlock()
	by := f.watchdog.check()
	if by == causeHung && f.s.runnable(f.p.PID()) {
		return causeStarved
	}
	return by
}

// call returns the call that the child is in.
func (f *following[M]) call() Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Busy(nil)
}

// waitsFor returns the call for which the child as a whole waits. It ignores a thread that
// waits in the kernel while the rest of the child works: killing the child would not end that
// call, but would end the rest.
func (f *following[M]) waitsFor() Call {
	return f.Busy(func(thread int) bool { return waitsInKernel(f.p.PID(), thread) })
}

// handle passes a message with the resulting status to the Attempt. The goroutine of the
// stream calls it.
func (f *following[M]) handle(m M) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over || f.end.End != nil {
		return errOver
	}
	f.watchdog.reset()
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

// endProcess ends the process, and reports whether it has ended. It kills a hanging process without asking it first. If a process
// is already ending while the kernel closes its resource, endProcess leaves it to the kernel.
func (s *Supervisor[M]) endProcess(f *following[M], by cause) bool {
	if by != causeHung && by != causeStarved && by != causeStuck {
		f.p.Ask()
		if closesWithin(s.spec.Timing.Grace, f.p.Done()) {
			return true
		}
		if s.leaveToKernel(f, by) {
			return closesWithin(s.spec.Timing.Kill, f.p.Done())
		}
		s.spec.Log.Warn(fmt.Sprintf("%s did not close its %s within %v%s and is killed",
			s.spec.Subject, s.spec.Resource, s.spec.Timing.Grace, duringCall(f.call())))
	}
	f.p.Kill()
	gone := closesWithin(s.spec.Timing.Kill, f.p.Done())
	if !gone {
		s.leaveToKernel(f, by)
	}
	return gone
}

// leaveToKernel decides whether to leave a process to the kernel, and returns the decision. It does so if the process is about
// to end and the reason is known.
func (s *Supervisor[M]) leaveToKernel(f *following[M], by cause) bool {
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

// decide returns the decision after the end of a process. The caller holds f.mu.
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
		d.why, d.retry = explainEnd(&s.spec, &report{}, by, call) // the report of the process is not complete
	case !gone:
		d.left = f.p.Done()
		d.why = explainLeft(&s.spec, f.p.PID(), s.runnable(f.p.PID()), call)
	case f.end.End != nil && by == causeNone && !f.p.Report().couldNotClose():
		d.why, d.retry = *f.end.End, f.end.Retry
	default:
		r := f.p.Report()
		if r.faulted() {
			call = f.Faulted()
		}
		if d.why, d.retry = explainEnd(&s.spec, r, by, call); d.why.Reason != status.ReasonLimit {
			d.trace = r.trace()
		}
	}
	// A crash is an unexpected end. An end is not a crash if the process never ran, was asked
	// to end, or lost its resource.
	if !f.running.IsZero() && by != causeShutdown && d.retry != OnWake {
		s.crashes++
	}
	return d
}
