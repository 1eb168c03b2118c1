package emit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
)

// model computes the expected sums of the points of each series.
type model struct {
	t      *testing.T
	start  time.Time
	pushed map[measure.Key]*measure.Event // all pushed points, merged by the test
	got    map[measure.Key]*measure.Event
	times  map[measure.Key][]int64 // when the queue returned points, by the limits' clock
	all    []int64                 // times of the points of all series
}

func newModel(t *testing.T) *model {
	return &model{
		t: t, start: time.Unix(1_700_000_000, 0),
		pushed: make(map[measure.Key]*measure.Event), got: make(map[measure.Key]*measure.Event),
		times: make(map[measure.Key][]int64),
	}
}

func (m *model) push(q *queue, r *rand.Rand, now int64, series int) {
	p := &measure.Event{
		Device: "mlx5_0", Port: 1 + r.IntN(series), Type: verbs.EventPortErr,
		Count: 1 + r.Uint64N(1000), HoldMax: r.Int64N(1e6), AckMax: r.Int64N(1e6),
		At: m.start.Add(time.Duration(now)), First: m.start.Add(time.Duration(now - r.Int64N(1000))),
	}
	sum := m.pushed[p.Key()]
	if sum == nil {
		sum = &measure.Event{First: p.First}
		m.pushed[p.Key()] = sum
	}
	p.Total = sum.Count + p.Count
	sum.Merge(p)
	q.push(p, now)
}

func (m *model) drain(q *queue, now int64) {
	for e, _ := q.next(now); e != nil; e, _ = q.next(now) {
		m.record(e, now)
	}
}

// record checks that an entry that the queue returned is in order, and adds it to the sums.
func (m *model) record(e *entry, now int64) {
	require.Len(m.t, e.points, 1)
	it := e.points[0].(*measure.Event)
	key := it.Key()
	sum := m.got[key]
	if sum == nil {
		sum = &measure.Event{First: it.First}
		m.got[key] = sum
	} else {
		require.False(m.t, it.First.Before(sum.At.Add(-1000)), "a point starts before the end of the previous point")
		require.False(m.t, it.At.Before(sum.At))
	}
	require.Equal(m.t, sum.Count+it.Count, it.Total, "total is the sum of count so far")
	sum.Merge(it)
	m.times[key] = append(m.times[key], now)
	m.all = append(m.all, now)
}

// requireLimit checks that no second had more than limit points.
func requireLimit(t *testing.T, times []int64, limit int) {
	t.Helper()
	for i := limit; i < len(times); i++ {
		require.GreaterOrEqual(t, times[i]-times[i-limit], int64(time.Second))
	}
}

func TestMergingLosesNothing(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 2))
		perSecond := 1 + r.IntN(25)
		q := newQueue(perSecond, allSeries*perSecond)
		q.capacity = 1 + r.IntN(50) // low enough to be reached
		m := newModel(t)
		series := 1 + r.IntN(40)
		now, reading := int64(0), true
		for range 3000 {
			now += r.Int64N(int64(20 * time.Millisecond))
			if r.IntN(300) == 0 {
				reading = !reading // Telegraf stops or resumes reading
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
		q := newQueue(perSecond, allSeries*perSecond)
		m := newModel(t)
		for now := int64(0); now < int64(20*time.Second); now += r.Int64N(int64(4 * time.Millisecond)) {
			m.push(q, r, now, 30)
			m.drain(q, now)
		}
		for _, times := range m.times {
			requireLimit(t, times, perSecond)
		}
		requireLimit(t, m.all, allSeries*perSecond)
		require.Positive(t, q.merged)
		// No series starves behind the limit for all.
		require.Len(t, m.got, 30)
		for key, times := range m.times {
			require.Greater(t, len(times), 3, key)
		}
	}
}

func eventAt(ms int, count uint64) *measure.Event {
	at := time.Unix(0, int64(ms)*1e6)
	return &measure.Event{Device: "d", Type: verbs.EventPortErr, Port: 1, Count: count, At: at, First: at}
}

func TestPointsAboveTheLimitBecomeOneThatSaysWhenItBegan(t *testing.T) {
	q := newQueue(2, allSeries*2)
	for i := range 5 {
		it := eventAt(i, 10)
		it.HoldMax, it.AckMax = int64(100-i), int64(i)
		q.push(it, int64(i)*1e6)
		if e, _ := q.next(int64(i) * 1e6); i < 2 {
			require.NotNil(t, e)
		} else {
			require.Nil(t, e)
		}
	}
	_, wait := q.next(4e6)
	require.Equal(t, time.Second-4*time.Millisecond, wait)
	e, _ := q.next(int64(time.Second))
	want := eventAt(4, 30)
	want.First, want.HoldMax, want.AckMax = time.Unix(0, 2e6), 98, 4
	require.Equal(t, []measure.Point{want}, e.points)
	require.Equal(t, uint64(2), q.merged)
	_, wait = q.next(int64(time.Second))
	require.Negative(t, wait)
}

func TestTheNewestViewWins(t *testing.T) {
	q := newQueue(1, allSeries*1)
	for i := range 3 {
		at := time.Unix(int64(i), 0)
		q.push(&measure.Port{Device: "d", Port: 1, Transitions: uint64(i), At: at}, int64(i))
		q.push(&measure.Device{Device: "d", Opens: uint64(i), At: at}, int64(i))
		q.next(int64(i))
		q.next(int64(i))
	}
	port, _ := q.next(int64(time.Second))
	require.Equal(t, uint64(2), port.points[0].(*measure.Port).Transitions)
	device, _ := q.next(int64(time.Second) + 1)
	require.Equal(t, uint64(2), device.points[0].(*measure.Device).Opens)
}

func TestAnIntervalReplacesOlderViewsAndGivesWayToNewerOnes(t *testing.T) {
	q := newQueue(1, allSeries*1)
	view := func(device string, tenths int64) *measure.Port {
		return &measure.Port{Device: device, Port: 1, At: time.Unix(0, tenths*1e8)}
	}
	for _, device := range []string{"older", "newer"} {
		q.push(view(device, 1), 0)
		e, _ := q.next(0)
		require.NotNil(t, e)
	}
	q.push(view("older", 2), 0) // held
	q.push(view("newer", 9), 0) // held
	require.Len(t, q.held, 2)

	q.pushInterval([]measure.Point{view("older", 5), view("newer", 5), view("other", 5)})
	require.Len(t, q.held, 1)
	require.Equal(t, "newer", q.held[0].points[0].Key().Device)
	require.Equal(t, uint64(2), q.merged)

	q.push(view("older", 6), 0)
	e, _ := q.next(0)
	require.Equal(t, []measure.Point{view("older", 5), view("other", 5)}, e.points)
}

func TestAWallClockSetBackHidesNoInterval(t *testing.T) {
	q := newQueue(20, allSeries*20)
	q.push(&measure.Port{Device: "d", Port: 1, At: time.Unix(7200, 0)}, 0)
	after := time.Unix(3600, 0)
	interval := []measure.Point{
		&measure.Port{Device: "d", Port: 1, At: after}, &measure.Device{Device: "d", At: after},
	}
	q.pushInterval(slices.Clone(interval))
	require.Zero(t, q.merged)
	_, _ = q.next(0)
	e, _ := q.next(0)
	require.Equal(t, interval, e.points)
}

func TestPointAfterAnIntervalIsEmittedAfterIt(t *testing.T) {
	q := newQueue(1, allSeries*1)
	view := func(seconds int64) *measure.Port {
		return &measure.Port{Device: "d", Port: 1, At: time.Unix(seconds, 0)}
	}
	q.push(view(1), 0) // not emitted yet
	q.pushInterval([]measure.Point{view(2)})
	q.push(view(3), 0) // above the limit
	var order []int64
	for _, e := range q.takeAll() {
		order = append(order, e.points[0].Time().Unix())
	}
	require.Equal(t, []int64{1, 2, 3}, order)
}

func TestSeriesThatHaveLongBeenSilentAreForgotten(t *testing.T) {
	q := newQueue(1000, allSeries*1000)
	push := func(n int, seconds int64) {
		for i := range n {
			now := seconds * 1e9
			q.push(&measure.Port{Device: fmt.Sprint("rxe", i, "at", seconds), Port: 1, At: time.Unix(seconds, 0)}, now)
			for e, _ := q.next(now); e != nil; e, _ = q.next(now) {
				require.NotNil(t, e.series)
			}
		}
	}
	for hour := range int64(20) {
		push(keptSeries/4, hour*3601)
	}
	require.LessOrEqual(t, len(q.series), 2*keptSeries)
}
