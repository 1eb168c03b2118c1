package alerts

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"rdma_events/assets/gen"
	provisioned "rdma_events/assets/grafana"
	"rdma_events/internal/agent/alerts"
	"rdma_events/internal/agent/health"
	"rdma_events/internal/telemetry/measure"
	"rdma_events/tests/grafana"
	"rdma_events/tests/influx"
	"rdma_events/tests/prom"
	"rdma_events/tests/rig"
)

const root = "../.."

func historyStart() time.Time { return time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC) }

// elsewhere are alerts that one host is judged by and whose cases are not of single series.
var elsewhere = map[string]string{
	"app-errors":  "assets/prometheus, tests/grafana and internal/agent/health: each asks for the events in its own way",
	"fabric-pair": "tests/fabric/model and internal/agent/health: it is about several series",
}

func TestEveryAlertHasCasesThatFireItAndThatDoNot(t *testing.T) {
	fires, quiet := map[string]int{}, map[string]int{}
	for _, c := range Cases() {
		if len(c.Fires) > 0 {
			fires[c.Alert]++
		} else {
			quiet[c.Alert]++
		}
	}
	for _, a := range alerts.Table() {
		if a.When == nil || elsewhere[a.ID] != "" {
			require.Zero(t, fires[a.ID]+quiet[a.ID], a.ID)
			continue
		}
		require.Positive(t, fires[a.ID], "%s: a case that fires it", a.ID)
		require.Positive(t, quiet[a.ID], "%s: a case that does not", a.ID)
	}
}

// point is a series at a moment.
type point struct {
	line measure.Line
	key  measure.Key
	at   time.Time
}

func (p *point) Key() measure.Key             { return p.key }
func (p *point) Time() time.Time              { return p.at }
func (p *point) Merge(measure.Point)          {}
func (p *point) Clone() measure.Point         { return p }
func (p *point) Events() uint64               { return 0 }
func (p *point) Lines(add func(measure.Line)) { add(p.line) }

// pointsOf returns the points of each minute.
func (c *Case) pointsOf(t *testing.T) [][]measure.Point {
	t.Helper()
	var all [][]measure.Point
	for i := range c.Series {
		s := &c.Series[i]
		metric := metricNamed(t, s.Measurement)
		minutes, err := s.minutes()
		require.NoError(t, err, c.Name)
		for minute, fields := range minutes {
			if minute == len(all) {
				all = append(all, nil)
			}
			if len(fields) == 0 {
				continue
			}
			tags := s.tags()
			p := &point{at: historyStart().Add(time.Duration(minute) * time.Minute), line: measure.Line{Name: s.Measurement, Tags: tags, Fields: map[string]any{}}}
			p.key = measure.Key{Measurement: s.Measurement, Device: tags["device"], Subject: s.Tags}
			for name, v := range fields {
				p.line.Fields[name] = typedValue(t, metric, name, v)
			}
			all[minute] = append(all[minute], p)
		}
	}
	return all
}

func metricNamed(t *testing.T, name string) *measure.Metric {
	t.Helper()
	all := measure.All()
	i := slices.IndexFunc(all, func(m measure.Metric) bool { return m.Name == name })
	require.GreaterOrEqual(t, i, 0, "the table of metrics has no %s", name)
	return &all[i]
}

func typedValue(t *testing.T, m *measure.Metric, name string, v any) any {
	t.Helper()
	f, ok := m.Field(name)
	require.True(t, ok, "the table of metrics has no %s.%s", m.Name, name)
	number, isNumber := v.(float64)
	require.Equal(t, f.Kind != measure.String, isNumber, "%s.%s: %v", m.Name, name, v)
	if f.Kind == measure.Int {
		return int64(number)
	}
	return v
}

func TestAHostJudgesItsCases(t *testing.T) {
	for _, c := range Cases() {
		t.Run(c.Alert+": "+c.Name, func(t *testing.T) {
			k := health.NewKeeper("v1", "gpu-17")
			for minute, points := range c.pointsOf(t) {
				s := k.Observe(points, historyStart().Add(time.Duration(minute)*time.Minute))
				n := 0
				for _, p := range s.Problems {
					if p.ID == c.Alert {
						n++
					}
				}
				c.require(t, minute, n)
			}
		})
	}
}

// require requires the number of alerts that the case wants at a minute.
func (c *Case) require(t *testing.T, minute, n int) {
	t.Helper()
	switch {
	case slices.Contains(c.Fires, minute):
		require.Equal(t, 1, n, "minute %d", minute)
	case slices.Contains(c.Quiet, minute):
		require.Zero(t, n, "minute %d", minute)
	}
}

// caseHost returns the name of the host of a case.
func caseHost(i int) string { return fmt.Sprintf("h%d", i) }

func TestInfluxDBJudgesTheCases(t *testing.T) {
	src := grafana.Source{Server: influx.Start(t), Database: "telegraf"}
	require.NoError(t, src.Server.CreateDatabase(t.Context(), src.Database))
	cases := Cases()
	for i := range cases {
		var lines bytes.Buffer
		for _, points := range cases[i].pointsOf(t) {
			for _, p := range points {
				p.Lines(func(l measure.Line) { writeLine(&lines, caseHost(i), l, p.Time()) })
			}
		}
		require.NoError(t, src.Server.Write(t.Context(), src.Database, &lines), cases[i].Name)
	}
	file, err := grafana.Rules(root)
	require.NoError(t, err)
	for _, group := range file.Groups {
		for i := range group.Rules {
			judgeCases(t, src, &group.Rules[i], &group, cases)
		}
	}
}

// lead is how many minutes before a minute that is asked for the evaluations begin: longer than any alert holds.
const lead = 15

// judgeCases evaluates a rule as Grafana does, around the minutes that its cases ask for.
func judgeCases(t *testing.T, src grafana.Source, rule *provisioned.Rule, group *provisioned.Group, cases []Case) {
	t.Helper()
	asked := map[int]bool{}
	for i := range cases {
		if "rdma-"+cases[i].Alert == rule.UID {
			for _, minute := range slices.Concat(cases[i].Fires, cases[i].Quiet) {
				asked[minute] = true
			}
		}
	}
	var w *grafana.Watcher
	last := -1
	for _, minute := range slices.Sorted(maps.Keys(asked)) {
		from := max(minute-lead, 0)
		if w == nil || from > last+1 {
			var err error
			w, err = grafana.NewWatcher(rule, group)
			require.NoError(t, err)
		} else {
			from = last + 1
		}
		for at := from; at <= minute; at++ {
			require.NoError(t, w.Evaluate(t.Context(), src, historyStart().Add(time.Duration(at)*time.Minute+17*time.Second+23*time.Millisecond)))
		}
		last = minute
		for i := range cases {
			c := &cases[i]
			if "rdma-"+c.Alert != rule.UID {
				continue
			}
			t.Run(fmt.Sprintf("%s: %s, minute %d", c.Alert, c.Name, minute), func(t *testing.T) {
				n := 0
				for _, labels := range w.In(grafana.Firing) {
					if labels["host"] == caseHost(i) {
						n++
					}
				}
				c.require(t, minute, n)
			})
		}
	}
}

func writeLine(b *bytes.Buffer, host string, l measure.Line, at time.Time) {
	fmt.Fprintf(b, "%s,host=%s", l.Name, host)
	for _, name := range slices.Sorted(maps.Keys(l.Tags)) {
		fmt.Fprintf(b, ",%s=%s", name, l.Tags[name])
	}
	by := " "
	for _, name := range slices.Sorted(maps.Keys(l.Fields)) {
		b.WriteString(by + name + "=")
		switch v := l.Fields[name].(type) {
		case int64:
			fmt.Fprintf(b, "%di", v)
		case string:
			fmt.Fprintf(b, "%q", v)
		default:
			fmt.Fprint(b, v)
		}
		by = ","
	}
	fmt.Fprintf(b, " %d\n", at.UnixNano())
}

func TestPrometheusJudgesTheCases(t *testing.T) {
	tests := map[string][]prom.UnitTest{}
	for _, c := range Cases() {
		x := prom.UnitTest{Name: c.Alert + ": " + c.Name, Interval: "1m", Series: c.inPrometheus(t)}
		firing := fmt.Sprintf(`count(ALERTS{alertname=%q, alertstate="firing"})`, gen.AlertName(c.Alert))
		for _, minute := range c.Fires {
			x.Exprs = append(x.Exprs, prom.UnitExpr{Expr: firing, At: fmt.Sprintf("%dm", minute), Samples: []prom.UnitSample{{Labels: "{}", Value: 1}}})
		}
		for _, minute := range c.Quiet {
			x.Exprs = append(x.Exprs, prom.UnitExpr{Expr: firing, At: fmt.Sprintf("%dm", minute)})
		}
		tests[c.Alert] = append(tests[c.Alert], x)
	}
	for alert, all := range tests {
		t.Run(alert, func(t *testing.T) {
			dir := t.TempDir()
			file := prom.UnitFile{RuleFiles: []string{onlyRule(t, dir, gen.AlertName(alert))}, Interval: "1m", Tests: all}
			text, err := yaml.Marshal(file)
			require.NoError(t, err)
			path := filepath.Join(dir, "cases.yml")
			require.NoError(t, os.WriteFile(path, text, 0o600))
			require.NoError(t, prom.Promtool(rig.Program(t, "PROMTOOL_BIN", "tools/promtool")).TestRules(t.Context(), path))
		})
	}
}

// onlyRule writes the rule of an alert alone to a file, since promtool evaluates each of a file at each minute of each case.
func onlyRule(t *testing.T, dir, alert string) string {
	t.Helper()
	text, err := os.ReadFile(root + "/assets/prometheus/rules.yml")
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Name  string           `yaml:"name"`
			Rules []map[string]any `yaml:"rules"`
		} `yaml:"groups"`
	}
	require.NoError(t, yaml.Unmarshal(text, &file))
	found := 0
	for i := range file.Groups {
		g := &file.Groups[i]
		g.Rules = slices.DeleteFunc(g.Rules, func(r map[string]any) bool { return r["alert"] != alert })
		found += len(g.Rules)
	}
	require.Equal(t, 1, found, alert)
	text, err = yaml.Marshal(file)
	require.NoError(t, err)
	path := filepath.Join(dir, "rules.yml")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path
}

// inPrometheus returns the series of a case by the names and units of Prometheus.
func (c *Case) inPrometheus(t *testing.T) []prom.UnitSeries {
	t.Helper()
	var all []prom.UnitSeries
	for i := range c.Series {
		s := &c.Series[i]
		metric := metricNamed(t, s.Measurement)
		labels := []string{`host="h"`}
		for name, value := range s.tags() {
			labels = append(labels, fmt.Sprintf("%s=%q", name, value))
		}
		minutes, err := s.minutes()
		require.NoError(t, err, c.Name)
		words := map[string][]string{} // the values of the series of each combination of words
		for name := range s.Fields {
			f, ok := metric.Field(name)
			require.True(t, ok, name)
			if f.Kind == measure.String {
				continue
			}
			column := make([]string, 0, len(minutes))
			for _, fields := range minutes {
				column = append(column, sampleText(name, fields[name]))
			}
			all = append(all, prom.UnitSeries{Series: seriesName(s.Measurement, f) + "{" + strings.Join(labels, ",") + "}", Values: strings.Join(column, " ")})
		}
		for minute, fields := range minutes {
			said := wordsOf(fields)
			if said != "" && words[said] == nil {
				words[said] = slices.Repeat([]string{"_"}, minute)
			}
			for other, column := range words {
				value := "_"
				switch {
				case other == said:
					value = "1"
				case said != "" && column[len(column)-1] != "_":
					value = "0" // telegraf.conf lets a series become 0 when its words change
				}
				words[other] = append(column, value)
			}
		}
		for said, column := range words {
			all = append(all, prom.UnitSeries{
				Series: s.Measurement + "_status{" + strings.Join(append(slices.Clone(labels), said), ",") + "}", Values: strings.Join(column, " "),
			})
		}
	}
	return all
}

// wordsOf returns the strings among fields as labels, "" if there are none.
func wordsOf(fields map[string]any) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if word, ok := fields[name].(string); ok {
			all = append(all, fmt.Sprintf("%s=%q", name, word))
		}
	}
	return strings.Join(all, ",")
}

func sampleText(name string, v any) string {
	number, ok := v.(float64)
	switch {
	case !ok:
		return "_"
	case strings.Contains(name, "_ns"):
		number /= 1e9
	case strings.HasSuffix(name, "_gbps"):
		number *= 125e6
	}
	return fmt.Sprint(number)
}

func seriesName(measurement string, f measure.Field) string {
	name := f.Name
	if before, after, ok := strings.Cut(name, "_ns"); ok {
		name = before + after + "_seconds"
	}
	if before, ok := strings.CutSuffix(name, "_gbps"); ok {
		name = before + "_bytes_per_second"
	}
	if f.Cumulative {
		name += "_total"
	}
	return measurement + "_" + name
}

func TestValuesAreThoseOfPromtool(t *testing.T) {
	got, err := parseNotation("0x2 3 _ 1+2x2 okx1")
	require.NoError(t, err)
	require.Equal(t, []any{0.0, 0.0, 0.0, 3.0, nil, 1.0, 3.0, 5.0, "ok", "ok"}, got)
	_, err = parseNotation("0x99999999999999999999")
	require.ErrorIs(t, err, ErrNotation)
}
