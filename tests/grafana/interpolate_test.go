package grafana

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/assets/grafana"
)

func TestVariablesStandInQueriesAsGrafanaPutsThem(t *testing.T) {
	variables := []grafana.Variable{
		{Name: "database"}, {Name: "host"}, {Name: "port", Multi: true, IncludeAll: true, AllValue: ".*"},
	}
	for _, c := range []struct {
		query, want string
		choice      Choice
	}{
		{`FROM "$database".."m"`, `FROM "my.db".."m"`, Choice{"database": {"my.db"}}},
		{`"host" =~ /^$host$/`, `"host" =~ /^a\.example\/1$/`, Choice{"host": {"a.example/1"}}},
		{`"host" = '$host'`, `"host" = 'a.b'`, Choice{"host": {"a.b"}}},
		{`"port" =~ /^$port$/`, `"port" =~ /^.*$/`, nil},
		{`"port" =~ /^$port$/`, `"port" =~ /^2$/`, Choice{"port": {"2"}}},
		{`"port" =~ /^$port$/`, `"port" =~ /^(1|2)$/`, Choice{"port": {"1", "2"}}},
		{`$hostile ${host}`, `$hostile a`, Choice{"host": {"a"}}},
		{`"host" =~ /^$host$/`, `"host" =~ /^$host$/`, nil},
	} {
		require.Equal(t, c.want, Render(c.query, variables, c.choice))
	}
}

func TestMacrosGetRangeAndInterval(t *testing.T) {
	r := Range{time.UnixMilli(1000), time.UnixMilli(61000)}
	require.Equal(t, "WHERE time >= 1000ms and time <= 61000ms GROUP BY time(10000ms) * 10000",
		Macros("WHERE $timeFilter GROUP BY time($__interval) * $__interval_ms", r, 10*time.Second))
}

func TestIntervalsAreRoundedAsGrafanaDoes(t *testing.T) {
	for _, c := range []struct {
		span  time.Duration
		count int
		least time.Duration
		want  time.Duration
	}{
		{time.Hour, 1800, 0, 2 * time.Second},
		{time.Hour, 900, 10 * time.Second, 10 * time.Second},
		{time.Hour, 60, 10 * time.Second, time.Minute},
		{24 * time.Hour, 60, 0, 20 * time.Minute},
		{7 * 24 * time.Hour, 60, 0, 3 * time.Hour},
		{time.Second, 100000, 0, time.Millisecond},
		{10000 * 24 * time.Hour, 10, 0, 24 * time.Hour},
	} {
		require.Equal(t, c.want, Interval(Range{historyStart(), historyStart().Add(c.span)}, c.count, c.least), "%v by %d", c.span, c.count)
	}
}

func TestAPanelsOwnRangeEndsWhereTheDashboardsDoes(t *testing.T) {
	d := &grafana.Dashboard{Panels: []grafana.Panel{{
		TimeFrom: "1d", GridPos: grafana.GridPos{W: 24}, Targets: []grafana.Target{{Query: "$timeFilter"}},
	}}}
	got, err := Requests(d, nil, Range{time.UnixMilli(100_000_000), time.UnixMilli(200_000_000)})
	require.NoError(t, err)
	require.Equal(t, "time >= 113600000ms and time <= 200000000ms", got[0].Query)
	d.Panels[0].TimeFrom = "a while"
	_, err = Requests(d, nil, Range{})
	require.Error(t, err)
}

func newNumber(value float64, labels ...string) Number {
	n := Number{Value: value, Labels: map[string]string{}}
	for i := 0; i < len(labels); i += 2 {
		n.Labels[labels[i]] = labels[i+1]
	}
	return n
}

func TestMathJoinsByLabels(t *testing.T) {
	vars := map[string][]Number{
		"RA": {newNumber(0, "host", "a"), newNumber(0, "host", "b"), newNumber(1, "host", "c")},
		"RB": {newNumber(1, "host", "a"), newNumber(1, "host", "c"), newNumber(math.NaN(), "host", "b"), newNumber(1, "host", "d")},
	}
	got, err := evaluateMath("$RA == 0 && $RB == 1", vars)
	require.NoError(t, err)
	require.Len(t, got, 3)
	require.Equal(t, newNumber(1, "host", "a"), got[0])
	require.True(t, math.IsNaN(got[1].Value), "b")
	require.Equal(t, newNumber(0, "host", "c"), got[2])

	got, err = evaluateMath("$RA > 5 * $RB || $RA == 1", map[string][]Number{"RA": {newNumber(6)}, "RB": {newNumber(1)}})
	require.NoError(t, err)
	require.Equal(t, 1.0, got[0].Value)
}

func TestSingleNumbersAreJoinedWhateverTheirLabels(t *testing.T) {
	got, err := evaluateMath("$RA * $RB", map[string][]Number{"RA": {newNumber(2, "host", "a")}, "RB": {newNumber(3, "host", "b")}})
	require.NoError(t, err)
	require.Equal(t, []Number{{Value: 6}}, got)
}

func TestUnsupportedExpressionIsAnError(t *testing.T) {
	for _, expression := range []string{"$RX > 0", "abs($RA)", "$RA % 2", "$RA >"} {
		_, err := evaluateMath(expression, map[string][]Number{"RA": {newNumber(1)}})
		require.Error(t, err, expression)
	}
	_, err := reduceSeries(nil, "median")
	require.ErrorIs(t, err, errExpression)
	_, err = evaluateThreshold(nil, []grafana.Condition{{Evaluator: grafana.Evaluator{Type: "within_range", Params: []float64{1, 2}}}})
	require.ErrorIs(t, err, errExpression)
	_, err = evaluateExpression(&grafana.Model{Type: "sql"}, nil, nil)
	require.ErrorIs(t, err, errExpression)
}

func TestARuleIsPendingBeforeItFires(t *testing.T) {
	rule := &grafana.Rule{UID: "r", For: "2m"}
	w, err := NewWatcher(rule, &grafana.Group{Interval: "1m"})
	require.NoError(t, err)
	at := historyStart()
	next := func(value float64) State {
		at = at.Add(time.Minute)
		w.update(newNumber(value, "host", "a"), at)
		return w.series["host=a"].state
	}
	require.Equal(t, Normal, next(0))
	require.Equal(t, Pending, next(1))
	require.Equal(t, Pending, next(1))
	require.Equal(t, Firing, next(1))
	require.Equal(t, []map[string]string{{"host": "a"}}, w.In(Firing))
	require.Equal(t, Firing, next(1))
	require.Equal(t, Normal, next(math.NaN()))
	require.Equal(t, Pending, next(1), "the time for pending starts again")
	_, err = NewWatcher(&grafana.Rule{For: "soon"}, &grafana.Group{Interval: "1m"})
	require.Error(t, err)
}
