package aggregate

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnIntervalHasMeanAndMaximumAndStartsAnew(t *testing.T) {
	var i Interval
	require.Equal(t, Stat{}, i.End())
	i.Add(10)
	i.Add(20)
	i.AddRun(3, 90, 60)
	require.Equal(t, Stat{Count: 5, Mean: 24, Max: 60}, i.End())
	i.Add(7)
	require.Equal(t, Stat{Count: 1, Mean: 7, Max: 7}, i.End())
}

func TestARateIsTheGrowthPerSecond(t *testing.T) {
	var r Rate
	require.InDelta(t, 2.0, r.Update(20, 10e9), 1e-9)
	require.InDelta(t, 0.0, r.Update(20, 10e9), 1e-9)
	require.Zero(t, r.Update(30, 0))
	require.InDelta(t, 30.0, r.Update(35, 5e8), 1e-9)
	require.Zero(t, r.Update(34, 1e9), "a counter that fell has no rate")
}

func TestAHistogramIsCumulativeWithInclusiveBounds(t *testing.T) {
	require.Len(t, Bounds(), 16)
	var h Histogram
	for _, d := range Bounds() {
		h.Add(int64(d))
	}
	h.Add(int64(5*time.Microsecond) + 1)
	h.Add(0)
	h.Add(math.MaxInt64)
	got := h.Cumulative()
	require.Len(t, got, 17)
	require.EqualValues(t, 2, got[0])
	require.EqualValues(t, 4, got[1])
	require.EqualValues(t, 18, got[15])
	require.EqualValues(t, 19, got[16])
}

func TestBoundsGoInStepsOf1And2And5(t *testing.T) {
	b := Bounds()
	require.Equal(t, 5*time.Microsecond, b[0])
	require.Equal(t, 500*time.Millisecond, b[len(b)-1])
	for i := 3; i < len(b); i++ {
		require.Equal(t, 10*b[i-3], b[i])
	}
	b[0] = 0
	require.Equal(t, 5*time.Microsecond, Bounds()[0], "a caller cannot change the bounds")
}
