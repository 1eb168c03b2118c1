package rdma_events

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/measure"
	"rdma_events/internal/verbs"
)

// model holds what the points of each series must add up to.
type model struct {
	t      *testing.T
	start  time.Time
	pushed map[seriesKey]*eventItem // everything pushed, merged by hand
	got    map[seriesKey]*eventItem
	times  map[seriesKey][]int64 // when points came out, by the limits' clock
	all    []int64
}

func newModel(t *testing.T) *model {
	return &model{
		t: t, start: time.Unix(1_700_000_000, 0),
		pushed: make(map[seriesKey]*eventItem), got: make(map[seriesKey]*eventItem),
		times: make(map[seriesKey][]int64),
	}
}

func (m *model) push(q *queue, r *rand.Rand, now int64, series int) {
	p := measure.Event{
		Device: "mlx5_0", Port: 1 + r.IntN(series), Type: verbs.EventPortErr,
		Count: 1 + r.Uint64N(1000), HoldMax: r.Int64N(1e6), AckMax: r.Int64N(1e6),
		Time: m.start.Add(time.Duration(now)), First: m.start.Add(time.Duration(now - r.Int64N(1000))),
	}
	key := seriesKey{"rdma_async_event", p.Device, p.Port, p.Type}
	sum := m.pushed[key]
	if sum == nil {
		sum = &eventItem{measure.Event{First: p.First}}
		m.pushed[key] = sum
	}
	p.Total = sum.Count + p.Count
	sum.absorb(&eventItem{p})
	q.push(key, &eventItem{p}, now)
}

func (m *model) drain(q *queue, now int64) {
	for e, _ := q.next(now); e != nil; e, _ = q.next(now) {
		m.take(e, now)
	}
}

// take notes what the queue hands out, and that it is in order.
func (m *model) take(e *entry, now int64) {
	it := e.item.(*eventItem)
	key := e.series.key
	sum := m.got[key]
	if sum == nil {
		sum = &eventItem{measure.Event{First: it.First}}
		m.got[key] = sum
	} else {
		require.False(m.t, it.First.Before(sum.Time.Add(-1000)), "a point begins before the one before ended")
		require.False(m.t, it.Time.Before(sum.Time))
	}
	require.Equal(m.t, sum.Count+it.Count, it.Total, "total is the sum of count so far")
	sum.absorb(it)
	m.times[key] = append(m.times[key], now)
	m.all = append(m.all, now)
}

// pace checks that no second had more than limit points.
func pace(t *testing.T, times []int64, limit int) {
	t.Helper()
	for i := limit; i < len(times); i++ {
		require.GreaterOrEqual(t, times[i]-times[i-limit], int64(time.Second))
	}
}

func TestMergingLosesNothing(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 2))
		perSecond := 1 + r.IntN(25)
		q := newQueue(perSecond)
		q.capacity = 1 + r.IntN(50) // reached, unlike the real one
		m := newModel(t)
		series := 1 + r.IntN(40)
		now, reading := int64(0), true
		for range 3000 {
			now += r.Int64N(int64(20 * time.Millisecond))
			if r.IntN(300) == 0 {
				reading = !reading // standard output is blocked for a while
			}
			m.push(q, r, now, series)
			if reading {
				m.drain(q, now)
			}
			require.LessOrEqual(t, len(q.ready)+len(q.held), q.capacity+series, "memory is bounded")
		}
		q.flush()
		m.drain(q, now)
		require.Equal(t, m.pushed, m.got)
		require.Zero(t, q.length())
	}
}

func TestLimitsHoldWhileTelegrafReads(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		perSecond := 1 + r.IntN(25)
		q := newQueue(perSecond)
		m := newModel(t)
		for now := int64(0); now < int64(20*time.Second); now += r.Int64N(int64(4 * time.Millisecond)) {
			m.push(q, r, now, 30)
			m.drain(q, now)
		}
		for _, times := range m.times {
			pace(t, times, perSecond)
		}
		pace(t, m.all, allSeries*perSecond)
		require.Positive(t, q.merged)
		// No series starves behind the limit for all.
		require.Len(t, m.got, 30)
		for key, times := range m.times {
			require.Greater(t, len(times), 3, key)
		}
	}
}

func eventAt(ms int, count uint64) *eventItem {
	at := time.Unix(0, int64(ms)*1e6)
	return &eventItem{measure.Event{Device: "d", Type: verbs.EventPortErr, Port: 1, Count: count, Time: at, First: at}}
}

func TestPointsAboveTheLimitBecomeOneThatSaysWhenItBegan(t *testing.T) {
	q := newQueue(2)
	key := seriesKey{device: "d"}
	for i := range 5 {
		it := eventAt(i, 10)
		it.HoldMax, it.AckMax = int64(100-i), int64(i)
		q.push(key, it, int64(i)*1e6)
		if e, _ := q.next(int64(i) * 1e6); i < 2 {
			require.NotNil(t, e)
		} else {
			require.Nil(t, e)
		}
	}
	_, wait := q.next(4e6)
	require.Equal(t, time.Second-4*time.Millisecond, wait)
	e, _ := q.next(int64(time.Second))
	got := e.item.(*eventItem)
	require.Equal(t, uint64(30), got.Count)
	require.Equal(t, time.Unix(0, 2e6), got.First)
	require.Equal(t, time.Unix(0, 4e6), got.Time)
	require.Equal(t, int64(98), got.HoldMax)
	require.Equal(t, int64(4), got.AckMax)
	require.Equal(t, uint64(2), q.merged)
	_, wait = q.next(int64(time.Second))
	require.Negative(t, wait)
}

func TestMergedChangesKeepTheFirstAndTheLastState(t *testing.T) {
	q := newQueue(1)
	key := seriesKey{measurement: "rdma_port_change", device: "d", port: 1}
	states := []verbs.PortState{verbs.PortActive, verbs.PortDown, verbs.PortInit, verbs.PortArmed, verbs.PortActive}
	for i := range 4 {
		q.push(key, &changeItem{measure.Change{
			From: states[i], To: states[i+1], Transitions: 1, Lasted: int64(i), HasLasted: true,
			Witness: verbs.WitnessEvent, Time: time.Unix(int64(i), 0),
		}}, int64(i))
		q.next(int64(i))
	}
	e, _ := q.next(int64(time.Second))
	require.Equal(t, measure.Change{
		From: verbs.PortDown, To: verbs.PortActive, Transitions: 3, Lasted: 3, HasLasted: true,
		Witness: verbs.WitnessEvent, Time: time.Unix(3, 0),
	}, e.item.(*changeItem).Change)
}

func TestTheNewestViewWins(t *testing.T) {
	q := newQueue(1)
	for i := range 3 {
		v := measure.Port{Device: "d", Port: 1, Transitions: uint64(i), Time: time.Unix(int64(i), 0)}
		q.push(portKey(&v), &portItem{v}, int64(i))
		d := measure.Device{Device: "d", Opens: uint64(i), Time: time.Unix(int64(i), 0)}
		q.push(deviceKey(&d), &deviceItem{d}, int64(i))
		q.next(int64(i))
		q.next(int64(i))
	}
	port, _ := q.next(int64(time.Second))
	require.Equal(t, uint64(2), port.item.(*portItem).Transitions)
	device, _ := q.next(int64(time.Second) + 1)
	require.Equal(t, uint64(2), device.item.(*deviceItem).Opens)
}

func TestAnIntervalReplacesOlderViewsAndGivesWayToNewerOnes(t *testing.T) {
	q := newQueue(1)
	at := func(tenths int64) time.Time { return time.Unix(0, tenths*1e8) }
	view := func(device string, tenths int64) *portItem {
		return &portItem{measure.Port{Device: device, Port: 1, Time: at(tenths)}}
	}
	push := func(it *portItem) { q.push(portKey(&it.Port), it, 0) }
	for _, device := range []string{"older", "newer"} {
		push(view(device, 1))
		e, _ := q.next(0)
		require.NotNil(t, e)
	}
	push(view("older", 2)) // held
	push(view("newer", 9)) // held
	require.Len(t, q.held, 2)

	in := &interval{snapshot: &measure.Snapshot{Ports: []measure.Port{
		view("older", 5).Port, view("newer", 5).Port, view("other", 5).Port,
	}}, time: at(5)}
	q.pushInterval(in)
	require.Len(t, q.held, 1)
	require.Equal(t, "newer", q.held[0].item.(*portItem).Device)
	require.Len(t, in.snapshot.Ports, 2)
	require.Equal(t, "older", in.snapshot.Ports[0].Device)
	require.Equal(t, "other", in.snapshot.Ports[1].Device)
	require.Equal(t, uint64(2), q.merged)

	push(view("older", 6))
	e, _ := q.next(0)
	require.Same(t, in, e.item)
}

func TestAWallClockSetBackHidesNoInterval(t *testing.T) {
	q := newQueue(20)
	before := measure.Port{Device: "d", Port: 1, Time: time.Unix(7200, 0)}
	q.push(portKey(&before), &portItem{before}, 0)
	after := before
	after.Time = time.Unix(3600, 0)
	in := &interval{snapshot: &measure.Snapshot{
		Ports: []measure.Port{after}, Devices: []measure.Device{{Device: "d", Time: after.Time}},
	}, time: after.Time}
	q.pushInterval(in)
	require.Len(t, in.snapshot.Ports, 1)
	require.Len(t, in.snapshot.Devices, 1)
	require.Zero(t, q.merged)
}

func TestWhatComesAfterAnIntervalIsEmittedAfterIt(t *testing.T) {
	q := newQueue(1)
	view := func(seconds int64) *portItem {
		return &portItem{measure.Port{Device: "d", Port: 1, Time: time.Unix(seconds, 0)}}
	}
	q.push(portKey(&view(1).Port), view(1), 0) // nobody takes it
	in := &interval{snapshot: &measure.Snapshot{Ports: []measure.Port{view(2).Port}}, time: time.Unix(2, 0)}
	q.pushInterval(in)
	q.push(portKey(&view(3).Port), view(3), 0) // beyond the limit
	var order []int64
	for _, e := range q.rest() {
		order = append(order, e.item.at().Unix())
	}
	require.Equal(t, []int64{1, 2, 3}, order)
}

func TestSeriesThatHaveLongBeenSilentAreForgotten(t *testing.T) {
	q := newQueue(1000)
	push := func(n int, seconds int64) {
		for i := range n {
			v := measure.Port{Device: fmt.Sprint("rxe", i, "at", seconds), Port: 1, Time: time.Unix(seconds, 0)}
			now := seconds * 1e9
			q.push(portKey(&v), &portItem{v}, now)
			for e, _ := q.next(now); e != nil; e, _ = q.next(now) {
				require.NotNil(t, e.series)
			}
		}
	}
	for hour := range int64(20) {
		push(seriesKept/4, hour*3601)
	}
	require.LessOrEqual(t, len(q.series), 2*seriesKept)
}
