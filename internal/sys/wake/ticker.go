package wake

import "time"

// Ticker is a time.Ticker whose ticks fall on multiples of its period, so that all tickers of a process wake it together.
type Ticker struct {
	C      <-chan time.Time
	timer  *time.Timer
	period time.Duration
}

// NewTicker returns a Ticker with the given period, which must be positive. The first tick comes within it. After each tick
// Next is to be called, by the goroutine that receives from C.
func NewTicker(period time.Duration) *Ticker {
	t := &Ticker{timer: time.NewTimer(untilMultiple(period)), period: period}
	t.C = t.timer.C
	return t
}

// Next sets the ticker for the next multiple of its period.
func (t *Ticker) Next() { t.timer.Reset(untilMultiple(t.period)) }

// Stop ends the ticks.
func (t *Ticker) Stop() { t.timer.Stop() }

// untilMultiple returns the time until the next multiple of a period since the beginning of the year 1. The wall clock is good
// enough for that: when it is set, the ticks move once.
func untilMultiple(period time.Duration) time.Duration {
	now := time.Now()
	return now.Truncate(period).Add(period).Sub(now)
}
