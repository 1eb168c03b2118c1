package emit

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
	"rdma_events/tests/accumulator"
)

// startEmitter starts an Emitter that runs until the test calls cancel. wait returns when it has ended.
func startEmitter(ctx context.Context, perSecond int, acc Accumulator) (e *Emitter, cancel context.CancelFunc, wait func()) {
	e = New(perSecond, time.Now)
	ctx, cancel = context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { e.Run(ctx, Lines(acc)) })
	return e, cancel, wg.Wait
}

// newRunningEmitter starts an Emitter that runs until the test ends.
func newRunningEmitter(t *testing.T, perSecond int, acc Accumulator) *Emitter {
	t.Helper()
	e, cancel, wait := startEmitter(t.Context(), perSecond, acc)
	t.Cleanup(func() {
		cancel()
		wait()
	})
	return e
}

func portErr(port int, count, total uint64) *measure.Event {
	return &measure.Event{
		Device: "mlx5_0", Type: verbs.EventPortErr, Port: port, Count: count, Total: total,
		First: time.Now(), At: time.Now(),
	}
}

// intervalWithoutDevices returns the points of an interval of a host without devices.
func intervalWithoutDevices(e *Emitter) []measure.Point {
	return []measure.Point{&measure.Collector{Queue: e.Queue(), At: time.Now()}}
}

// sumField adds up a field over all points of a measurement.
func sumField(acc *testutil.Accumulator, measurement, field string) (sum int64, points int) {
	for _, m := range acc.GetTelegrafMetrics() {
		if m.Name() != measurement {
			continue
		}
		if v, ok := m.GetField(field); ok {
			sum += v.(int64)
			points++
		}
	}
	return sum, points
}

func TestAnEventIsEmittedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var acc testutil.Accumulator
		e := newRunningEmitter(t, 20, &acc)
		before := time.Now()
		e.Emit(portErr(1, 1, 1))
		synctest.Wait()
		require.Equal(t, before, time.Now())
		acc.AssertContainsTaggedFields(t, "rdma_async_event",
			map[string]any{"count": int64(1), "total": int64(1)},
			map[string]string{"device": "mlx5_0", "event": "port_err", "scope": "port", "port": "1"})
	})
}

func TestAStormBecomesAFewPointsThatAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var acc testutil.Accumulator
		const perSecond, seconds, perMillisecond = 20, 10, 7
		e := newRunningEmitter(t, perSecond, &acc)
		var total uint64
		for range seconds * 1000 {
			total += perMillisecond
			e.Emit(portErr(1, perMillisecond, total))
			time.Sleep(time.Millisecond) // of the synctest bubble
			synctest.Wait()
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		sum, points := sumField(&acc, "rdma_async_event", "count")
		require.Equal(t, int64(total), sum)
		require.LessOrEqual(t, points, perSecond*(seconds+1))
		require.Greater(t, points, perSecond*(seconds-1))
		_, merged := sumField(&acc, "rdma_async_event", "first_ns")
		require.Equal(t, points, merged, "all points of several events have first_ns")
	})
}

func TestNothingIsLostWhileTelegrafDoesNotReadForAnHour(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 4))
			acc := accumulator.NewBlocked()
			e := newRunningEmitter(t, 20, acc)
			var total, changes uint64
			perPort := map[int]uint64{}
			for range 3600 {
				time.Sleep(time.Second)
				for range r.IntN(50) {
					port, n := 1+r.IntN(8), 1+r.Uint64N(100)
					total += n
					perPort[port] += n
					e.Emit(portErr(port, n, perPort[port]))
				}
				changes++
				e.Emit(&measure.Change{
					Device: "mlx5_0", Port: 1, From: verbs.PortActive, To: verbs.PortDown,
					Transitions: 1, At: time.Now(), Witness: verbs.WitnessEvent,
				})
				if e.AdmitInterval() {
					e.EmitInterval(intervalWithoutDevices(e))
				}
				require.LessOrEqual(t, e.Queue().Length, minCapacity+100)
			}
			acc.Open()
			e.Close()
			synctest.Wait()
			sum, points := sumField(&acc.Accumulator, "rdma_async_event", "count")
			require.Equal(t, int64(total), sum)
			require.Less(t, points, 2000)
			transitions, _ := sumField(&acc.Accumulator, "rdma_port_change", "transitions")
			require.Equal(t, int64(changes), transitions)
			dropped, lost := e.Dropped()
			require.Zero(t, dropped)
			require.Zero(t, lost)
		})
	}
}

func TestPointsOfASeriesAreInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 5))
		var acc testutil.Accumulator
		e := newRunningEmitter(t, 5, &acc)
		for i := range 5000 {
			time.Sleep(time.Duration(r.IntN(10)) * time.Millisecond)
			v := &measure.Port{Device: "mlx5_0", Port: 1, Transitions: uint64(i), At: time.Now()}
			if r.IntN(50) == 0 && e.AdmitInterval() {
				e.EmitInterval([]measure.Point{v})
			} else {
				e.Emit(v)
			}
		}
		e.Close()
		synctest.Wait()
		last, transitions := time.Time{}, int64(-1)
		for _, m := range acc.GetTelegrafMetrics() {
			if m.Name() != "rdma_port" {
				continue
			}
			require.True(t, m.Time().After(last))
			v, ok := m.GetField("transitions")
			require.True(t, ok)
			require.Greater(t, v.(int64), transitions)
			last, transitions = m.Time(), v.(int64)
		}
		require.Equal(t, int64(4999), transitions, "the newest point was emitted")
	})
}

func TestAnUnreadIntervalIsNotFollowedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acc := accumulator.NewBlocked()
		e := newRunningEmitter(t, 20, acc)
		gather := func() bool {
			if !e.AdmitInterval() {
				return false
			}
			e.EmitInterval(intervalWithoutDevices(e))
			return true
		}
		require.True(t, gather())
		synctest.Wait()
		for range 3 {
			require.False(t, gather())
		}
		acc.Open()
		synctest.Wait()
		require.True(t, gather())
		synctest.Wait()
		skipped, _ := sumField(&acc.Accumulator, "rdma_collector", "skipped_intervals")
		require.Equal(t, int64(3), skipped)
	})
}

func TestTheDeadlineCountsWhatItCutsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acc := accumulator.NewBlocked()
		e, cancel, wait := startEmitter(t.Context(), 20, acc)
		for i := range 10 {
			e.Emit(portErr(1, 3, uint64(3*i+3)))
			synctest.Wait() // one point is in the accumulator, nine are in the queue
		}
		e.Close()
		synctest.Wait()
		cancel()
		acc.Open()
		wait()
		points, events := e.Dropped()
		require.Equal(t, uint64(10), points)
		require.Equal(t, uint64(30), events)
	})
}

func TestAnIntervalThatIsCutOffLosesItsLastLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acc := accumulator.NewBlocked()
		e, cancel, wait := startEmitter(t.Context(), 20, acc)
		at := time.Now()
		e.EmitInterval([]measure.Point{
			&point{series: "a", at: at, lines: 3, count: 4}, &point{series: "b", at: at, lines: 2, count: 5},
		})
		synctest.Wait() // the first line is in the accumulator
		cancel()
		acc.Open()
		wait()
		require.Len(t, acc.GetTelegrafMetrics(), 1)
		lines, events := e.Dropped()
		require.Equal(t, uint64(5), lines, "the blocked line counts as dropped too")
		require.Equal(t, uint64(9), events)
		require.False(t, e.AdmitInterval(), "no interval is gathered after the deadline")
	})
}

func TestDrainSaysWhenTheNextPointIsDue(t *testing.T) {
	var acc testutil.Accumulator
	now := time.Unix(1000, 0)
	e := New(1, func() time.Time { return now })
	require.Negative(t, e.Drain(Lines(&acc)))
	e.Emit(&point{series: "a", at: now, count: 1})
	require.Negative(t, e.Drain(Lines(&acc)))
	e.Emit(&point{series: "a", at: now, count: 1})
	e.Emit(&point{series: "a", at: now, count: 1})
	require.Equal(t, time.Second, e.Drain(Lines(&acc)))
	sum, points := sumField(&acc, "m", "v")
	require.Equal(t, []int{1, 1}, []int{int(sum), points})
	now = now.Add(time.Second)
	require.Negative(t, e.Drain(Lines(&acc)))
	sum, points = sumField(&acc, "m", "v")
	require.Equal(t, []int{3, 2}, []int{int(sum), points})
}

func TestPushingNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acc := accumulator.NewBlocked()
		e := newRunningEmitter(t, 20, acc)
		before := time.Now()
		for i := range 100_000 {
			e.Emit(portErr(1, 1, uint64(i+1)))
		}
		require.Equal(t, before, time.Now())
		synctest.Wait()
		acc.Open()
	})
}
