package rdma_events

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"

	"rdma_events/internal/measure"
	"rdma_events/internal/verbs"
	"rdma_events/tests/accumulator"
)

// fakeWatcher emits the points that a test wants and records the calls that it gets.
type fakeWatcher struct {
	emit     func(measure.Point)
	gathered int
	closed   bool
	linger   chan struct{} // nil: Run returns as soon as ctx is done
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

func (f *fakeWatcher) Gather(now time.Time) ([]measure.Point, *measure.Collector) {
	f.gathered++
	return []measure.Point{
		&measure.Device{Device: "mlx5_0", Present: true, At: now}, &measure.Host{At: now},
	}, &measure.Collector{At: now}
}

func (f *fakeWatcher) Close() error {
	f.closed = true
	return nil
}

func newPlugin(f *fakeWatcher) (*Plugin, *testutil.CaptureLogger) {
	log := &testutil.CaptureLogger{}
	p := New()
	p.Log = log
	p.open = func(_ *Config, d dependencies) (watcher, error) {
		f.emit = d.emit
		return f, nil
	}
	return p, log
}

func portErr(port int, total uint64) *measure.Event {
	return &measure.Event{
		Device: "mlx5_0", Type: verbs.EventPortErr, Port: port, Count: 1, Total: total, At: time.Now(),
	}
}

// events adds up the events of all points.
func events(acc *testutil.Accumulator) (sum int64, points int) {
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
		p, _ := newPlugin(&fakeWatcher{})
		require.NoError(t, p.Init())
		require.NoError(t, p.Start(acc))
		acc.Open()
		synctest.Wait()
		_, points := events(&acc.Accumulator)
		require.Equal(t, 1, points)
		p.Stop()
	})
}

func TestGatherEmitsDevicesAndTheCollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var acc testutil.Accumulator
		p, _ := newPlugin(&fakeWatcher{})
		require.NoError(t, p.Start(&acc))
		require.NoError(t, p.Gather(&acc))
		synctest.Wait()
		require.True(t, acc.HasMeasurement("rdma_device"))
		require.True(t, acc.HasInt64Field("rdma_collector", "uptime_ns"))
		require.True(t, acc.HasInt64Field("rdma_collector", "rss_bytes"))
		require.True(t, acc.HasInt64Field("rdma_collector", "queue_capacity"))
		p.Stop()
	})
}

func TestGatherDoesNotWaitForTelegraf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acc := accumulator.NewBlocked()
		f := &fakeWatcher{}
		p, _ := newPlugin(f)
		require.NoError(t, p.Start(acc))
		for range 10 {
			require.NoError(t, p.Gather(acc))
		}
		require.Equal(t, 1, f.gathered, "the monitor's interval goes on until it can be emitted")
		acc.Open()
		p.Stop()
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
		p, log := newPlugin(f)
		require.NoError(t, p.Start(&acc))
		before := time.Now()
		p.Stop()
		require.Equal(t, before, time.Now(), "nothing had to be waited for")
		sum, _ := events(&acc)
		require.Equal(t, int64(101), sum)
		require.True(t, f.closed)
		require.Empty(t, log.Warnings())
	})
}

func TestStopEndsInTimeWhileTelegrafDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acc := accumulator.NewBlocked()
		p, log := newPlugin(&fakeWatcher{})
		p.Interrupt = acc.Open
		require.NoError(t, p.Start(acc))
		synctest.Wait()
		require.NoError(t, p.Gather(acc))
		before := time.Now()
		p.Stop()
		require.Equal(t, time.Duration(p.ShutdownTimeout)*5/6, time.Since(before))
		require.Len(t, log.Warnings(), 1)
		require.Contains(t, log.Warnings()[0], "4 points with 1 events are lost")
	})
}

func TestStopLeavesAWorkerThatTheKernelHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var acc testutil.Accumulator
		f := &fakeWatcher{linger: make(chan struct{})}
		p, log := newPlugin(f)
		require.NoError(t, p.Start(&acc))
		before := time.Now()
		p.Stop()
		require.Less(t, time.Since(before), time.Duration(p.ShutdownTimeout))
		require.False(t, f.closed, "it is still in use")
		require.Len(t, log.Errors(), 1)
		close(f.linger)
	})
}

func TestAFailedStartLeavesNothingToStop(t *testing.T) {
	p := New()
	p.Log = testutil.Logger{}
	want := errors.New("open program: no such file")
	p.open = func(*Config, dependencies) (watcher, error) { return nil, want }
	require.ErrorIs(t, p.Start(&testutil.Accumulator{}), want)
	p.Stop()
}

func TestThePluginIsRegistered(t *testing.T) {
	var p telegraf.ServiceInput = New()
	require.Equal(t, sampleConfig, p.SampleConfig())
}
