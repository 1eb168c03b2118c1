package session

import (
	"time"

	"rdma_events/internal/sys/wake"
)

// alarms are the times at which something is looked at again: soon after an event, once the
// events have settled, and at an interval. One goroutine uses them.
type alarms struct {
	soon    *time.Timer // queryDelay after the first event since it went off last
	settled *time.Timer // settle after the last event
	waiting bool        // soon is running
	tick    <-chan time.Time
	ticker  *wake.Ticker // nil without an interval
}

// newAlarms returns alarms of which only the interval runs, from a moment on. The interval 0 is none.
func newAlarms(interval time.Duration, since time.Time) *alarms {
	a := &alarms{soon: stopped(), settled: stopped()}
	if interval > 0 {
		a.ticker = wake.NewTicker(interval, since)
		a.tick = a.ticker.C
	}
	return a
}

// event sets the alarms after an event. Who receives from soon clears waiting.
func (a *alarms) event() {
	if !a.waiting {
		a.soon.Reset(queryDelay)
		a.waiting = true
	}
	a.settled.Reset(settle)
}

func (a *alarms) stop() {
	a.soon.Stop()
	a.settled.Stop()
	if a.ticker != nil {
		a.ticker.Stop()
	}
}

// stopped returns a timer that does not run.
func stopped() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}
