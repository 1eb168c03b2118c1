package emit

import (
	"strconv"
	"testing"
	"time"

	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"

	"rdma_events/internal/telemetry/measure"
)

// point is a measure.Point of the named series. It has one or several lines.
type point struct {
	series string
	at     time.Time
	lines  int
	count  uint64
}

func (p *point) Key() measure.Key      { return measure.Key{Measurement: "m", Device: p.series} }
func (p *point) Time() time.Time       { return p.at }
func (p *point) Merge(l measure.Point) { p.at, p.count = l.Time(), p.count+l.Events() }
func (p *point) Events() uint64        { return p.count }

func (p *point) Clone() measure.Point {
	c := *p
	return &c
}

func (p *point) Lines(add func(measure.Line)) {
	for range max(1, p.lines) {
		add(measure.Line{Name: "m", Fields: map[string]any{"v": int64(p.count)}})
	}
}

// emittedTimes emits the points and returns the times of all lines, in ns.
func emittedTimes(t *testing.T, points ...*point) []int64 {
	t.Helper()
	var acc testutil.Accumulator
	e := New(1000, time.Now)
	for _, p := range points {
		e.Emit(p)
		require.Negative(t, e.Drain(Lines(&acc)))
	}
	var times []int64
	for _, m := range acc.GetTelegrafMetrics() {
		times = append(times, m.Time().UnixNano())
	}
	return times
}

func TestTimesRiseWithinASeries(t *testing.T) {
	at := time.Unix(100, 0)
	base := at.UnixNano()
	require.Equal(t, []int64{base, base + 1, base, base + 2, base + 1e9}, emittedTimes(t,
		&point{series: "a", at: at}, &point{series: "a", at: at}, &point{series: "b", at: at},
		&point{series: "a", at: at.Add(-time.Millisecond)}, &point{series: "a", at: at.Add(time.Second)}))
}

func TestAllLinesOfAPointHaveItsTime(t *testing.T) {
	at := time.Unix(100, 0)
	base := at.UnixNano()
	require.Equal(t, []int64{base, base, base + 1, base + 1}, emittedTimes(t,
		&point{series: "a", at: at, lines: 2}, &point{series: "a", at: at, lines: 2}))
}

func TestAClockSetBackIsFollowed(t *testing.T) {
	at := time.Unix(10_000, 0)
	var points []*point
	for _, back := range []time.Duration{0, time.Second, time.Hour, time.Hour} {
		points = append(points, &point{series: "a", at: at.Add(-back)})
	}
	base := at.UnixNano()
	require.Equal(t, []int64{base, base + 1, base - 3600e9, base - 3600e9 + 1}, emittedTimes(t, points...))
}

func TestTimesOfSeriesThatHaveLongBeenSilentAreForgotten(t *testing.T) {
	s := seriesTimes{last: make(map[measure.Key]time.Time)}
	for i := range 20 * keptSeries {
		s.next(&point{series: strconv.Itoa(i), at: time.Unix(int64(i), 0)})
	}
	require.LessOrEqual(t, len(s.last), 2*keptSeries)
}
