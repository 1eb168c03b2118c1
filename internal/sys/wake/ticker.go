package wake

import "time"

// Ticker is a time.Ticker whose ticks fall on multiples of its period since a moment: tickers that share the moment wake their
// process together.
type Ticker struct {
	C      <-chan time.Time
	timer  *time.Timer
	since  time.Time
	period time.Duration
}

// NewTicker returns a Ticker with a period, which must be positive, and a moment. The first tick comes within the period. After
// each tick Next is to be called, by the goroutine that receives from C. The moment may be zero: any one will do then that the
// whole process shares.
func NewTicker(period time.Duration, since time.Time) *Ticker {
	t := &Ticker{since: since, period: period}
	t.timer = time.NewTimer(t.left())
	t.C = t.timer.C
	return t
}

// Next sets the ticker for the next multiple of its period.
func (t *Ticker) Next() { t.timer.Reset(t.left()) }

// Stop ends the ticks.
func (t *Ticker) Stop() { t.timer.Stop() }

// left returns the time until the next tick.
func (t *Ticker) left() time.Duration {
	if t.since.IsZero() {
		// The wall clock is good enough: when it is set, the ticks move once.
		now := time.Now()
		return now.Truncate(t.period).Add(t.period).Sub(now)
	}
	return t.period - time.Since(t.since)%t.period
}
