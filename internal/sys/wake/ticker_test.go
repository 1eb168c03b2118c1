package wake

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTickersTickTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { requireTogether(t, time.Time{}) })
	synctest.Test(t, func(t *testing.T) { requireTogether(t, time.Now().Add(-4321*time.Millisecond)) })
}

func requireTogether(t *testing.T, since time.Time) {
	t.Helper()
	var ticks []time.Time
	time.Sleep(300 * time.Millisecond)
	a := NewTicker(time.Second, since)
	defer a.Stop()
	time.Sleep(300 * time.Millisecond)
	b := NewTicker(2*time.Second, since)
	defer b.Stop()
	for range 6 {
		select {
		case at := <-a.C:
			a.Next()
			ticks = append(ticks, at)
		case at := <-b.C:
			b.Next()
			ticks = append(ticks, at)
		}
	}
	moments := map[time.Time]int{}
	for _, at := range ticks {
		moments[at]++
	}
	require.Len(t, moments, 4, "two of the six came together with others")
}

// A reference time without a reading of the monotonic clock would move whenever the wall clock is set. Two ticks could then come in short
// succession.
func TestTheReferenceTimeOfATickerIsOfTheMonotonicClock(t *testing.T) {
	ticker := NewTicker(time.Minute, time.Time{})
	defer ticker.Stop()
	hasReading := ticker.since != ticker.since.Round(0) // Equal ignores the reading, which Round removes
	require.True(t, hasReading)
}
