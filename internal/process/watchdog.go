package process

import "time"

// watchdog notices a process that lives and does nothing. It counts its own
// checks instead of reading clocks where it can: a host that was stopped for a
// while, or a machine that was suspended, must not blame the process.
type watchdog struct {
	busy  func() Call
	quiet int // checks since the last message
	limit int
	stuck time.Duration
	mono  func() int64 // CLOCK_MONOTONIC, ns

	last Call
}

// checksPerBeat is how often the watchdog checks within a beat's timeout.
const checksPerBeat = 4

func (w *watchdog) beat() { w.quiet = 0 }

func (w *watchdog) check() cause {
	if w.quiet++; w.quiet > w.limit {
		return causeHung
	}
	busy := w.busy()
	again := busy == w.last
	w.last = busy
	// Seen twice, because a process that was stopped together with the host shows
	// an old time until it runs again.
	if again && busy.Name != "" && w.mono()-busy.Since > int64(w.stuck) {
		return causeStuck
	}
	return causeNone
}
