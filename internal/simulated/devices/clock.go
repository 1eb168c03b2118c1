package devices

import (
	"time"
)

// Clock returns CLOCK_MONOTONIC in ns. It may be called concurrently. Calls wait on
// timers of package time, so another clock must run in step with them, as time.Now does
// in a testing/synctest bubble.
type Clock func() int64

// sleep waits until the given time. It returns false if stop is closed first.
func (c Clock) sleep(until int64, stop <-chan struct{}) bool {
	for {
		left := until - c()
		if left <= 0 {
			return true
		}
		timer := time.NewTimer(time.Duration(left))
		select {
		case <-timer.C:
		case <-stop:
			timer.Stop()
			return false
		}
	}
}
