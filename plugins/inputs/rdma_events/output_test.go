package rdma_events

import (
	"strconv"
	"testing"
	"time"

	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"

	"rdma_events/internal/measure"
)

func times(acc *testutil.Accumulator) []int64 {
	var all []int64
	for _, m := range acc.GetTelegrafMetrics() {
		all = append(all, m.Time().UnixNano())
	}
	return all
}

func onePoint(series string, t time.Time) *measure.Line {
	return &measure.Line{Series: series, Name: "m", Fields: map[string]any{"v": int64(1)}, Time: t}
}

func TestTimesRiseWithinASeries(t *testing.T) {
	var acc testutil.Accumulator
	out := output{acc: &acc, last: make(map[string]time.Time)}
	at := time.Unix(100, 0)
	for _, p := range []*measure.Line{
		onePoint("a", at), onePoint("a", at), onePoint("b", at), onePoint("a", at.Add(-time.Millisecond)),
		onePoint("a", at.Add(time.Second)),
	} {
		out.add(p)
	}
	base := at.UnixNano()
	require.Equal(t, []int64{base, base + 1, base, base + 2, base + 1e9}, times(&acc))
}

func TestAClockSetBackIsFollowed(t *testing.T) {
	var acc testutil.Accumulator
	out := output{acc: &acc, last: make(map[string]time.Time)}
	at := time.Unix(10_000, 0)
	for _, back := range []time.Duration{0, time.Second, time.Hour, time.Hour} {
		out.add(onePoint("a", at.Add(-back)))
	}
	base := at.UnixNano()
	require.Equal(t, []int64{base, base + 1, base - 3600e9, base - 3600e9 + 1}, times(&acc))
}

func TestTimesOfSeriesThatHaveLongBeenSilentAreForgotten(t *testing.T) {
	out := output{acc: &testutil.Accumulator{Discard: true}, last: make(map[string]time.Time)}
	for i := range 20 * seriesKept {
		out.add(onePoint(strconv.Itoa(i), time.Unix(int64(i), 0)))
	}
	require.LessOrEqual(t, len(out.last), 2*seriesKept)
}
