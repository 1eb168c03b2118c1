package rdma_events

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"

	"rdma_events/internal/measure"
	"rdma_events/internal/verbs"
)

// blockable is an accumulator that Telegraf can stop reading.
type blockable struct {
	testutil.Accumulator

	gate chan struct{} // closed: it reads
	once sync.Once
}

func newBlockable() *blockable { return &blockable{gate: make(chan struct{})} }

func (b *blockable) read() { b.once.Do(func() { close(b.gate) }) }

func (b *blockable) AddFields(name string, fields map[string]any, tags map[string]string, t ...time.Time) {
	<-b.gate
	b.Accumulator.AddFields(name, fields, tags, t...)
}

// emitting runs an emitter until the test ends.
func emitting(t *testing.T, perSecond int, acc telegraf.Accumulator) *emitter {
	t.Helper()
	e := newEmitter(measure.NewTables(), perSecond, time.Now)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { e.Run(ctx, acc) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return e
}

func length(e *emitter) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.queue.length()
}

func portErr(port int, count, total uint64) measure.Event {
	return measure.Event{
		Device: "mlx5_0", Type: verbs.EventPortErr, Port: port, Count: count, Total: total, Time: time.Now(),
	}
}

// counts adds up a field over all points of a measurement.
func counts(acc *testutil.Accumulator, measurement, field string) (sum int64, points int) {
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
		e := emitting(t, 20, &acc)
		before := time.Now()
		e.Event(portErr(1, 1, 1))
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
		e := emitting(t, perSecond, &acc)
		var total uint64
		for range seconds * 1000 {
			total += perMillisecond
			e.Event(portErr(1, perMillisecond, total))
			time.Sleep(time.Millisecond) // of the bubble's clock
			synctest.Wait()
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		sum, points := counts(&acc, "rdma_async_event", "count")
		require.Equal(t, int64(total), sum)
		require.LessOrEqual(t, points, perSecond*(seconds+1))
		require.Greater(t, points, perSecond*(seconds-1))
		_, merged := counts(&acc, "rdma_async_event", "first_ns")
		require.Equal(t, points, merged, "runs of 7 all say when they began")
	})
}

func TestNothingIsLostWhileTelegrafDoesNotReadForAnHour(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 4))
			acc := newBlockable()
			e := emitting(t, 20, acc)
			var total, changes uint64
			perPort := map[int]uint64{}
			for range 3600 {
				time.Sleep(time.Second)
				for range r.IntN(50) {
					port, n := 1+r.IntN(8), 1+r.Uint64N(100)
					total += n
					perPort[port] += n
					e.Event(portErr(port, n, perPort[port]))
				}
				changes++
				e.Change(measure.Change{
					Device: "mlx5_0", Port: 1, From: verbs.PortActive, To: verbs.PortDown,
					Transitions: 1, Time: time.Now(), Witness: verbs.WitnessEvent,
				})
				if e.ready() {
					e.interval(&measure.Snapshot{}, measure.Usage{}, time.Now())
				}
				require.LessOrEqual(t, length(e), minCapacity+100)
			}
			acc.read()
			e.close()
			synctest.Wait()
			sum, points := counts(&acc.Accumulator, "rdma_async_event", "count")
			require.Equal(t, int64(total), sum)
			require.Less(t, points, 2000)
			transitions, _ := counts(&acc.Accumulator, "rdma_port_change", "transitions")
			require.Equal(t, int64(changes), transitions)
			dropped, lost := e.left()
			require.Zero(t, dropped)
			require.Zero(t, lost)
		})
	}
}

func TestPointsOfASeriesAreInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 5))
		var acc testutil.Accumulator
		e := emitting(t, 5, &acc)
		for i := range 5000 {
			time.Sleep(time.Duration(r.IntN(10)) * time.Millisecond)
			v := measure.Port{Device: "mlx5_0", Port: 1, Transitions: uint64(i), Time: time.Now()}
			if r.IntN(50) == 0 && e.ready() {
				e.interval(&measure.Snapshot{Ports: []measure.Port{v}}, measure.Usage{}, time.Now())
			} else {
				e.Port(v)
			}
		}
		e.close()
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
		require.Equal(t, int64(4999), transitions, "the newest view came through")
	})
}

func TestAnUnreadIntervalIsNotFollowedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acc := newBlockable()
		e := emitting(t, 20, acc)
		gather := func() bool {
			if !e.ready() {
				return false
			}
			e.interval(&measure.Snapshot{}, measure.Usage{}, time.Now())
			return true
		}
		require.True(t, gather())
		synctest.Wait()
		for range 3 {
			require.False(t, gather())
		}
		acc.read()
		synctest.Wait()
		require.True(t, gather())
		synctest.Wait()
		skipped, _ := counts(&acc.Accumulator, "rdma_collector", "skipped_intervals")
		require.Equal(t, int64(3), skipped)
	})
}

func TestTheDeadlineCountsWhatItCutsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acc := newBlockable()
		e := newEmitter(measure.NewTables(), 20, time.Now)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { e.Run(ctx, acc) })
		for i := range 10 {
			e.Event(portErr(1, 3, uint64(3*i+3)))
			synctest.Wait() // one in the accumulator, nine in the queue
		}
		e.close()
		synctest.Wait()
		cancel()
		acc.read()
		wg.Wait()
		points, events := e.left()
		require.Equal(t, uint64(10), points)
		require.Equal(t, uint64(30), events)
	})
}

func TestPushingNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acc := newBlockable()
		e := emitting(t, 20, acc)
		before := time.Now()
		for i := range 100_000 {
			e.Event(portErr(1, 1, uint64(i+1)))
		}
		require.Equal(t, before, time.Now())
		synctest.Wait()
		acc.read()
	})
}
