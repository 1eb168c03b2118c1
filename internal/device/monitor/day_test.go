package monitor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestADayCountHasWhatGrewWithinADay(t *testing.T) {
	var d dayCount
	hours := func(n float64) int64 { return int64(n * float64(time.Hour)) }
	require.EqualValues(t, 0, d.recordTotal(0, hours(1)))
	for hour := range 30 {
		require.EqualValues(t, min(hour+1, 25), d.recordTotal(uint64(hour+1), hours(float64(hour)+2)), hour)
	}
	require.EqualValues(t, 25, d.recordTotal(31, hours(31.1)), "another one of the same step")
	require.LessOrEqual(t, len(d.steps), 26)
	require.EqualValues(t, 1+1, d.recordTotal(31, hours(31+24)))
	require.EqualValues(t, 0, d.recordTotal(31, hours(31+25)))
	require.Empty(t, d.steps)
}
