package session

import (
	"time"

	"rdma_events/internal/sys/wake"
)

// recheckTimers tell a goroutine when to query a port or read its GID table again: soon after
// an event, once the events have settled, and at an interval. Only one goroutine may use them.
type recheckTimers struct {
	soon        *time.Timer // fires queryDelay after the first event since it last fired
	settled     *time.Timer // fires settleDelay after the last event
	soonRunning bool        // soon is running
	tick        <-chan time.Time
	ticker      *wake.Ticker // nil without an interval
}

// newRecheckTimers returns recheckTimers of which only the interval runs, counted from since. With interval 0 none runs.
func newRecheckTimers(interval time.Duration, since time.Time) *recheckTimers {
	a := &recheckTimers{soon: newStoppedTimer(), settled: newStoppedTimer()}
	if interval > 0 {
		a.ticker = wake.NewTicker(interval, since)
		a.tick = a.ticker.C
	}
	return a
}

// startAfterEvent starts the timers soon and settled. The receiver of soon clears soonRunning.
func (a *recheckTimers) startAfterEvent() {
	if !a.soonRunning {
		a.soon.Reset(queryDelay)
		a.soonRunning = true
	}
	a.settled.Reset(settleDelay)
}

func (a *recheckTimers) stop() {
	a.soon.Stop()
	a.settled.Stop()
	if a.ticker != nil {
		a.ticker.Stop()
	}
}

// newStoppedTimer returns a timer that does not run.
func newStoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}
