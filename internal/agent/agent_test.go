package agent

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
	"rdma_events/tests/accumulator"
)

// fakeWatcher emits points as a test configures it, and records calls.
type fakeWatcher struct {
	emit     func(measure.Point)
	gathered int
	closed   bool
	linger   chan struct{} // Run blocks on it after ctx is done; nil: Run returns at once
	last     func(emit func(measure.Point))
}

func (f *fakeWatcher) Run(ctx context.Context) error {
	f.emit(portErr(1, 1))
	<-ctx.Done()
	if f.last != nil {
		f.last(f.emit)
	}
	if f.linger != nil {
		<-f.linger
	}
	return nil
}

func (f *fakeWatcher) Gather(now time.Time) measure.Interval {
	f.gathered++
	return measure.Interval{
		Points: []measure.Point{&measure.Device{Device: "mlx5_0", Present: true, At: now}, &measure.Host{At: now}},
		Own:    &measure.Collector{At: now},
	}
}

func (f *fakeWatcher) Close() error {
	f.closed = true
	return nil
}

func newTestAgent(f *fakeWatcher) (*Agent, *captured) {
	log := &captured{}
	c := DefaultConfig()
	a := New(&c, Options{Log: log.logger()})
	a.open = func(_ *Config, d dependencies) (watcher, error) {
		f.emit = d.emit
		return f, nil
	}
	return a, log
}

func portErr(port int, total uint64) *measure.Event {
	return &measure.Event{
		Device: "mlx5_0", Type: verbs.EventPortErr, Port: port, Count: 1, Total: total, At: time.Now(),
	}
}

// countEvents returns the number of events in all points, and the number of points with events.
func countEvents(acc *testutil.Accumulator) (sum int64, points int) {
	for _, m := range acc.GetTelegrafMetrics() {
		if v, ok := m.GetField("count"); ok && m.Name() == "rdma_async_event" {
			sum += v.(int64)
			points++
		}
	}
	return sum, points
}

func TestStartAddsNothingBeforeItReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acc := accumulator.NewBlocked() // the shim's channel has no reader yet
		a, _ := newTestAgent(&fakeWatcher{})
		require.NoError(t, a.Start(acc))
		acc.Open()
		synctest.Wait()
		_, points := countEvents(&acc.Accumulator)
		require.Equal(t, 1, points)
		a.Stop(nil)
	})
}

func TestGatherEmitsDevicesAndTheCollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var acc testutil.Accumulator
		a, _ := newTestAgent(&fakeWatcher{})
		require.NoError(t, a.Start(&acc))
		a.Gather()
		synctest.Wait()
		require.True(t, acc.HasMeasurement("rdma_device"))
		require.True(t, acc.HasInt64Field("rdma_collector", "uptime_ns"))
		require.True(t, acc.HasInt64Field("rdma_collector", "rss_bytes"))
		require.True(t, acc.HasInt64Field("rdma_collector", "queue_capacity"))
		a.Stop(nil)
	})
}

func TestGatherDoesNotWaitForTelegraf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acc := accumulator.NewBlocked()
		f := &fakeWatcher{}
		a, _ := newTestAgent(f)
		require.NoError(t, a.Start(acc))
		for range 10 {
			a.Gather()
		}
		require.Equal(t, 1, f.gathered, "the monitor's interval goes on until it can be emitted")
		acc.Open()
		a.Stop(nil)
	})
}

func TestStopEmitsTheLastEventsAndClosesTheWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var acc testutil.Accumulator
		f := &fakeWatcher{last: func(emit func(measure.Point)) {
			for i := range 100 { // far above the limit
				emit(portErr(2, uint64(i+1)))
			}
		}}
		a, log := newTestAgent(f)
		require.NoError(t, a.Start(&acc))
		before := time.Now()
		a.Stop(nil)
		require.Equal(t, before, time.Now(), "nothing had to be waited for")
		sum, _ := countEvents(&acc)
		require.Equal(t, int64(101), sum)
		require.True(t, f.closed)
		require.Empty(t, log.at(slog.LevelWarn))
	})
}

func TestStopEndsInTimeWhileTelegrafDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acc := accumulator.NewBlocked()
		a, log := newTestAgent(&fakeWatcher{})
		require.NoError(t, a.Start(acc))
		synctest.Wait()
		a.Gather()
		before := time.Now()
		a.Stop(acc.Open)
		require.Equal(t, time.Duration(a.config.ShutdownTimeout)*5/6, time.Since(before))
		require.Len(t, log.at(slog.LevelWarn), 1)
		require.Contains(t, log.at(slog.LevelWarn)[0], "lost_points 4, lost_events 1")
	})
}

func TestStopLeavesAWorkerThatTheKernelHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var acc testutil.Accumulator
		f := &fakeWatcher{linger: make(chan struct{})}
		a, log := newTestAgent(f)
		require.NoError(t, a.Start(&acc))
		before := time.Now()
		a.Stop(nil)
		require.Less(t, time.Since(before), time.Duration(a.config.ShutdownTimeout))
		require.False(t, f.closed, "it is still in use")
		require.Len(t, log.at(slog.LevelError), 1)
		close(f.linger)
	})
}

func TestAFailedStartLeavesNothingToStop(t *testing.T) {
	a, _ := newTestAgent(nil)
	want := errors.New("open program: no such file")
	a.open = func(*Config, dependencies) (watcher, error) { return nil, want }
	require.ErrorIs(t, a.Start(&testutil.Accumulator{}), want)
	a.Stop(nil)
}
