package process

import "time"

// watchdog detects a process that exists but does nothing. Where it can, it counts its
// own checks instead of reading clocks: the process must not be blamed when the host was
// stopped for a while, or the machine was suspended.
type watchdog struct {
	busy  func() Call
	quiet int // checks since the last message
	limit int
	stuck time.Duration
	mono  func() int64 // CLOCK_MONOTONIC, ns

	last Call
}

// checksPerBeat is how many checks the watchdog makes within Timing.Beat.
const checksPerBeat = 4

func (w *watchdog) beat() { w.quiet = 0 }

func (w *watchdog) check() cause {
	if w.quiet++; w.quiet > w.limit {
		return causeHung
	}
	busy := w.busy()
	again := busy == w.last
	w.last = busy
	// The call must be the same in two checks, because a process that was stopped
	// together with the host shows an old time until it runs again.
	if again && busy.Name != "" && w.mono()-busy.Since > int64(w.stuck) {
		return causeStuck
	}
	return causeNone
}
