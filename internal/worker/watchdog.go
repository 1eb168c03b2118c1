package worker

import (
	"time"

	"rdma_events/internal/ledger"
)

// watchdog notices a worker that lives and does nothing. It counts its own
// looks instead of reading clocks where it can: a host that was stopped for a
// while, or a machine that was suspended, must not blame the worker.
type watchdog struct {
	led   *ledger.Ledger
	quiet int // looks since the last batch
	limit int
	stuck time.Duration
	mono  func() int64 // CLOCK_MONOTONIC, ns

	snap ledger.Snapshot
	last ledger.Lane
}

// looksPerBeat is how often the watchdog looks within a beat's timeout.
const looksPerBeat = 4

func (w *watchdog) beat() { w.quiet = 0 }

func (w *watchdog) look() cause {
	if w.quiet++; w.quiet > w.limit {
		return causeHung
	}
	busy := w.busy()
	again := busy == w.last
	w.last = busy
	// Seen twice, because a worker that was stopped together with the host shows
	// an old beat until it runs again.
	if again && busy.Call != ledger.CallNone && w.mono()-busy.Beat > int64(w.stuck) {
		return causeStuck
	}
	return causeNone
}

func (w *watchdog) busy() ledger.Lane {
	w.led.Snapshot(&w.snap)
	return w.snap.Busy()
}
