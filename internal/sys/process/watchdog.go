package process

import "time"

// watchdog detects a process that exists but does nothing. Where it can, it counts its
// own checks instead of reading clocks: the process must not be blamed when the host was
// stopped for a while, or the machine was suspended.
type watchdog struct {
	busy  func() Call
	alive func() int64
	quiet int // checks since the last message, and since alive has changed
	limit int
	stuck time.Duration
	mono  func() int64 // CLOCK_MONOTONIC, ns
	// period is the time between two checks. A check that comes later than twice that shows
	// that the host did not run, and often nor did the process: calls have all of their time
	// once more. 0: checks come at any time.
	period time.Duration

	last    Call
	lived   int64 // what alive returned last
	checked int64 // when the last check was, CLOCK_MONOTONIC ns; 0: there was none
	resumed int64 // when a check came late last
}

func (w *watchdog) beat() { w.quiet = 0 }

func (w *watchdog) check() cause {
	if lived := w.alive(); lived != w.lived {
		w.lived = lived
		w.beat()
	}
	if w.quiet++; w.quiet > w.limit {
		return causeHung
	}
	now := w.mono()
	if w.period > 0 && w.checked > 0 && now-w.checked > 2*int64(w.period) {
		w.resumed = now
	}
	w.checked = now
	busy := w.busy()
	again := busy == w.last
	w.last = busy
	// The call must be the same in two checks, because a process that was stopped
	// together with the host shows an old time until it runs again.
	if again && busy.Name != "" && now-max(busy.Since, w.resumed) > int64(w.stuck) {
		return causeStuck
	}
	return causeNone
}
