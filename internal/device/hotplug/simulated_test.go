package hotplug

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

// timeline is a simulatedHost whose device names change at given seconds.
type timeline []struct {
	at    int64
	names []string
}

func (w timeline) Devices(at int64) []string {
	var names []string
	for _, entry := range w {
		if entry.at*int64(time.Second) <= at {
			names = entry.names
		}
	}
	return names
}

func (w timeline) NextChange(at int64) (int64, bool) {
	for _, entry := range w {
		if moment := entry.at * int64(time.Second); moment > at {
			return moment, true
		}
	}
	return 0, false
}

func TestSimulatedReportsEachChangeWhenItHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := timeline{
			{0, []string{"mlx5_0", "mlx5_1"}},
			{10, []string{"mlx5_1"}},
			{20, []string{"mlx5_1"}},
			{30, []string{"mlx5_0", "mlx5_1"}},
			{40, []string{"rocep1s0", "mlx5_1"}},
		}
		start := time.Now()
		now := func() int64 { return int64(time.Since(start)) }
		type report struct {
			at    time.Duration
			found []verbs.Found
		}
		var got []report
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()

		err := NewSimulated(world, now).Run(ctx, func(found []verbs.Found) {
			got = append(got, report{time.Since(start), found})
		})

		require.ErrorIs(t, err, context.DeadlineExceeded)
		one := verbs.Found{Name: "mlx5_1", Index: 1, Node: "sim1"}
		require.Equal(t, []report{
			{0, []verbs.Found{{Name: "mlx5_0", Index: 0, Node: "sim0"}, one}},
			{10 * time.Second, []verbs.Found{one}},
			{30 * time.Second, []verbs.Found{{Name: "mlx5_0", Index: 2, Node: "sim2"}, one}},
			{40 * time.Second, []verbs.Found{{Name: "rocep1s0", Index: 2, Node: "sim2"}, one}},
		}, got)
	})
}

func TestSimulatedReportsAnEmptyWorldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		reports := 0
		err := NewSimulated(timeline{}, func() int64 { return 0 }).Run(ctx, func(found []verbs.Found) {
			require.Empty(t, found)
			reports++
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 1, reports)
	})
}

func TestSimulatedStopsBetweenTwoChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		world := timeline{{3600, []string{"mlx5_0"}}}
		err := NewSimulated(world, func() int64 { return 0 }).Run(ctx, func([]verbs.Found) {})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestADeviceInPlaceOfAnotherIsNoRename(t *testing.T) {
	last, next := applyNames(nil, []string{"b", "c"}, 0)
	found, _ := applyNames(last, []string{"a", "b"}, next)
	require.Equal(t, []verbs.Found{
		{Name: "a", Index: 2, Node: "sim2"},
		{Name: "b", Index: 0, Node: "sim0"},
	}, found)
}
