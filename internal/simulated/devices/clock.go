package devices

import (
	"time"
)

// Clock returns CLOCK_MONOTONIC in ns, and may be called concurrently. Calls
// wait on timers of package time, so another clock has to keep pace with them,
// as time.Now does in a testing/synctest bubble.
type Clock func() int64

// sleep waits until the given moment and reports whether it came before stop.
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
