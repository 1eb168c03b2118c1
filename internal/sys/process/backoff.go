package process

import (
	"cmp"
	"fmt"
	"time"

	"rdma_events/internal/sys/status"
)

// Restarts plans when to start the next process. The delays before a restart double from Timing.Retry up to Timing.RetryMax.
// Each delay is randomly up to a fifth shorter or longer, so that the children of a host do not restart at the same time.
// Restarts is not safe for concurrent use.
type Restarts struct {
	timing Timing
	rand   func() float64 // in [0,1)
	next   time.Duration
}

// NewRestarts returns Restarts with the delays of t. rand returns numbers in [0,1).
func NewRestarts(t Timing, rand func() float64) *Restarts {
	return &Restarts{timing: t.orDefault(), rand: rand}
}

// Wait describes how a Supervisor waits before it starts the next process.
type Wait struct {
	State status.State  // state during the wait
	For   time.Duration // 0: no limit, with OnWake
	Wakes bool          // Supervisor.Wake ends the wait
	Plan  string        // in words, for messages
}

// After returns how to wait after a process has ended. It increases the next delay for Soon.
func (r *Restarts) After(retry Retry) Wait {
	t := &r.timing
	switch retry {
	case Slowly:
		return Wait{status.StateBackingOff, r.jitter(t.Slow), true, fmt.Sprintf("trying again every %v", t.Slow)}
	case OnWake:
		return Wait{status.StateStopped, 0, true, "waiting for it to come back"}
	case Rarely:
		return Wait{status.StateStopped, r.jitter(t.Rare), true, fmt.Sprintf("trying again after a change, and every %v", t.Rare)}
	}
	delay := cmp.Or(r.next, t.Retry)
	r.next = min(2*delay, t.RetryMax)
	delay = r.jitter(delay)
	return Wait{status.StateBackingOff, delay, false, fmt.Sprintf("restarting in %v", delay.Round(time.Millisecond))}
}

func (r *Restarts) jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*r.rand()))
}

// RanWell reports whether running for the time d counts as success. If so, it resets the next delay to the first one.
func (r *Restarts) RanWell(d time.Duration) bool {
	well := d >= r.timing.Well
	if well {
		r.next = 0
	}
	return well
}
