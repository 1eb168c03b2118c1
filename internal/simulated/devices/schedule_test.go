package devices

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAScheduleKnowsWhatComesNextAndWhatWasLast(t *testing.T) {
	for _, row := range []struct {
		name     string
		s        schedule
		at, next int64
		last     int64 // -1: none
	}{
		{"before the first", schedule{at: 10}, 9, 10, -1},
		{"at the only one", schedule{at: 10}, 10, never, 10},
		{"long before an epoch", schedule{at: 10, every: 5}, math.MinInt64, 10, -1},
		{"between two", schedule{at: 10, every: 5}, 17, 20, 15},
		{"at one of many", schedule{at: 10, every: 5}, 20, 25, 20},
		{"before the last of three", schedule{at: 10, every: 5, times: 3}, 19, 20, 15},
		{"after the last of three", schedule{at: 10, every: 5, times: 3}, 99, never, 20},
		{"never", schedule{at: never}, 99, never, -1},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.next, row.s.next(row.at))
			last, ok := row.s.last(row.at)
			require.Equal(t, row.last >= 0, ok)
			require.Equal(t, max(row.last, 0), last)
		})
	}
}

func TestAWindowHoldsFromItsBeginningUntilBeforeItsEnd(t *testing.T) {
	w := window{schedule: schedule{at: 10, every: 10, times: 2}, length: 3}
	for at, want := range map[int64]int64{9: 0, 10: 13, 12: 13, 13: 0, 20: 23, 23: 0, 30: 0} {
		end, ok := w.active(at)
		require.Equal(t, want != 0, ok, "at %d", at)
		if ok {
			require.Equal(t, want, end, "at %d", at)
		}
	}
	var edges []int64
	for at := w.edge(0); at != never; at = w.edge(at) {
		edges = append(edges, at)
	}
	require.Equal(t, []int64{10, 13, 20, 23}, edges)
}

func TestAWindowWithoutEndHoldsForEver(t *testing.T) {
	w := window{schedule: schedule{at: 10}, length: never}
	end, ok := w.active(math.MaxInt64 - 1)
	require.True(t, ok)
	require.EqualValues(t, never, end)
	require.EqualValues(t, never, w.edge(10))
	require.EqualValues(t, never, w.shift(w.length).at)
}
