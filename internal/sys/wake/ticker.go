package wake

import "time"

// Ticker is like a time.Ticker, but its ticks fall on multiples of its period since a reference time. Tickers with the same
// reference time and period wake their process together.
type Ticker struct {
	C      <-chan time.Time
	timer  *time.Timer
	since  time.Time
	period time.Duration
}

// NewTicker returns a Ticker. The period must be positive. The first tick comes within the period. After each tick, the goroutine
// that receives from C has to call Next. If since is zero, the Ticker uses a reference time that the whole process shares, as long as
// nobody sets the wall clock between two calls of NewTicker. Setting it does not move the ticks of a Ticker.
func NewTicker(period time.Duration, since time.Time) *Ticker {
	if since.IsZero() {
		now := time.Now()
		since = now.Add(-now.Sub(now.Truncate(period))) // the last multiple of the period, with the monotonic clock's reading
	}
	t := &Ticker{since: since, period: period}
	t.timer = time.NewTimer(t.untilNext())
	t.C = t.timer.C
	return t
}

// Next schedules the next tick.
func (t *Ticker) Next() { t.timer.Reset(t.untilNext()) }

// Stop ends the ticks.
func (t *Ticker) Stop() { t.timer.Stop() }

// untilNext returns the time until the next tick.
func (t *Ticker) untilNext() time.Duration {
	return t.period - time.Since(t.since)%t.period
}
