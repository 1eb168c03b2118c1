package process

import "time"

// watchdog detects a process that exists but does nothing. Where possible, it counts its own
// checks instead of reading clocks, because it must not blame the process if the host was
// stopped for a while or the machine was suspended. A check counts only if it comes a period
// after the last one, give or take a quarter. After a late check, the process may not have run
// either. An early check follows a late one, and no sign of life may be due between the two.
type watchdog struct {
	busy  func() Call  // Attempt.Busy
	alive func() int64 // Attempt.Alive
	quiet int          // checks since the last sign of life
	limit int          // greatest value of quiet at which the process does not hang
	stuck time.Duration
	mono  func() int64 // CLOCK_MONOTONIC, ns
	// period is the time between two checks. If a check is later than twice the period, the host
	// did not run, and the process often did not run either. Calls then get all of their time
	// once more. 0: checks come at any time.
	period time.Duration

	last      Call
	lastAlive int64 // last value of alive
	checked   int64 // time of the last check, CLOCK_MONOTONIC ns; 0: there was none
	resumed   int64 // time of the last check that came late
}

// reset records a sign of life.
func (w *watchdog) reset() { w.quiet = 0 }

// check returns causeHung or causeStuck if the process has to be killed.
func (w *watchdog) check() cause {
	if alive := w.alive(); alive != w.lastAlive {
		w.lastAlive = alive
		w.reset()
	}
	now, period := w.mono(), int64(w.period)
	passed, timed := now-w.checked, w.period > 0 && w.checked > 0
	early, late := timed && passed < period-period/4, timed && passed > period+period/4
	if !early {
		w.checked = now
	}
	if timed && passed > 2*period {
		w.resumed = now
	}
	if !early && !late {
		if w.quiet++; w.quiet > w.limit {
			return causeHung
		}
	}
	busy := w.busy()
	unchanged := busy == w.last
	w.last = busy
	// The call must be the same in two checks, because a process that was stopped together
	// with the host shows an old time until it runs again.
	if unchanged && busy.Name != "" && now-max(busy.Since, w.resumed) > int64(w.stuck) {
		return causeStuck
	}
	return causeNone
}
