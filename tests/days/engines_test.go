package days

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"rdma_events/assets/gen"
	"rdma_events/internal/agent/alerts"
	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/telemetry/emit"
	"rdma_events/internal/telemetry/measure"
	"rdma_events/tests/grafana"
	"rdma_events/tests/history"
	"rdma_events/tests/influx"
	"rdma_events/tests/prom"
	"rdma_events/tests/rig"
	"rdma_events/tests/scrapes"
)

const (
	// offset is when in each of its intervals Prometheus scrapes.
	offset = 7 * time.Second
	// askew moves the evaluations away from the points' times.
	askew = 17 * time.Second
	// evaluation is how often rules are evaluated, but for those of the slow groups.
	evaluation = time.Minute
	// tolerance is how much sooner or later one engine may say what the other one does: where a series ends, InfluxDB still has its last
	// points, and Grafana waits for two evaluations.
	tolerance = 4 * evaluation
)

// day holds what two hosts report in a day. Something happens to the first, and all is well on the other.
type day struct {
	every       time.Duration // Telegraf's interval
	lines       bytes.Buffer  // of the host
	begin, ends time.Time
	// changes are the moments from which on the evaluations are dense. With none, all are.
	changes []time.Time
	// The other host reports nothing from silent until back.
	silent, back time.Time
	// newList is when the other host gets another list of the fabric's peers; zero: it does not.
	newList time.Time
}

// recording returns where the host of the day writes its lines.
func (d *day) recording(t *testing.T) *history.Recording {
	r, err := history.NewRecording(&d.lines, map[string]string{"host": "node1", "site": "s"})
	require.NoError(t, err)
	return r
}

// other returns the lines of the other host.
func (d *day) other(t *testing.T) []byte {
	t.Helper()
	var lines bytes.Buffer
	r, err := history.NewRecording(&lines, map[string]string{"host": "node2", "site": "s"})
	require.NoError(t, err)
	out := emit.Lines(r)
	for at := d.begin; at.Before(d.ends); at = at.Add(d.every) {
		if at.After(d.silent) && at.Before(d.back) {
			continue
		}
		out.Write(t.Context(), &measure.Collector{Usage: measure.Usage{Uptime: int64(at.Sub(d.begin)) + 1}, At: at}, at)
		port := &measure.FabricPort{Device: "mlx5_0", Port: 1, OwnGroup: "g00", Verdict: verdict.VerdictOK, List: oldList, At: at}
		port.Pairs, port.PairsMet = 8, 8
		if !d.newList.IsZero() && at.After(d.newList) {
			port.List = newList
		}
		out.Write(t.Context(), port, at)
	}
	require.NoError(t, r.Err())
	return lines.Bytes()
}

// engines are an InfluxDB with a day, and what a Prometheus scraped on it.
type engines struct {
	assets string // the directory above the generated files
	day    *day
	influx grafana.Source
	series *scrapes.Series
}

// fillEngines writes the day into both engines. Their files are written for the interval of the day.
func fillEngines(t *testing.T, d *day) *engines {
	t.Helper()
	e := &engines{assets: writeAssets(t, d.every), day: d, influx: grafana.Source{Server: influx.Start(t), Database: "rdma"}}
	e.series = scrapes.NewSeries(e.firstScrape(), d.every)
	require.NoError(t, e.influx.Server.CreateDatabase(t.Context(), e.influx.Database))
	text, err := os.ReadFile(filepath.Join(e.assets, "assets/prometheus/telegraf.conf"))
	require.NoError(t, err)
	output, err := scrapes.ReadOutput(string(text))
	require.NoError(t, err)
	telegraf, err := scrapes.Start(rig.Program(t, "TELEGRAF_LARGE_BIN", "tools/telegraf-large"), string(text), t.TempDir())
	require.NoError(t, err)
	defer func() { require.NoError(t, telegraf.Close()) }()
	for name, lines := range map[string][]byte{"node1": d.lines.Bytes(), "node2": d.other(t)} {
		to := e.influx.Server.NewWriter(t.Context(), e.influx.Database)
		for line := range bytes.Lines(lines) {
			_, err := to.Write(line)
			require.NoError(t, err)
		}
		require.NoError(t, to.Flush())
		metrics, err := telegraf.Shape(lines)
		require.NoError(t, err)
		require.NoError(t, output.Each(metrics, e.firstScrape(), d.ends, d.every, func(at time.Time, found []*dto.MetricFamily) error {
			scrapes.Label(found, "rdma", name+":9273")
			e.series.Add(at, found)
			return nil
		}))
	}
	return e
}

// writeAssets has the program write the files of both engines for an interval, and returns the directory above them.
func writeAssets(t *testing.T, every time.Duration) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for engine, out := range map[string]string{"influxdb": "assets", "prometheus": "assets/prometheus"} {
		program := rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events")
		said, err := exec.Command(program, "assets", "-engine", engine, "-interval", every.String(), "-out", filepath.Join(dir, out)).CombinedOutput()
		require.NoError(t, err, string(said))
	}
	return dir
}

func (e *engines) firstScrape() time.Time { return e.day.begin.Add(offset) }

const (
	// dense is how long after a change, and before the next one, rules are evaluated as often as they are by default.
	dense = 40 * time.Minute
	// sparse is the time between two evaluations else.
	sparse = 15 * time.Minute
)

// evaluations are the times at which rules are evaluated.
func (d *day) evaluations() []time.Time {
	var all []time.Time
	near := func(at time.Time) bool {
		return d.changes == nil || slices.ContainsFunc(d.changes, func(c time.Time) bool {
			return !at.Before(c.Add(-tolerance)) && at.Before(c.Add(dense))
		})
	}
	for at := d.begin.Truncate(evaluation).Add(evaluation + askew); at.Before(d.ends); at = at.Add(evaluation) {
		if near(at) || at.Truncate(evaluation).Equal(at.Truncate(sparse)) {
			all = append(all, at)
		}
	}
	return all
}

// firing are the alerts at the times of evaluations, as in "critical port-down mlx5_0:1".
type firing struct {
	times  []time.Time
	alerts [][]string
}

// firingInfluxDB evaluates the rules of Grafana.
func (e *engines) firingInfluxDB(t *testing.T) *firing {
	t.Helper()
	f := &firing{times: e.day.evaluations()}
	f.alerts = make([][]string, len(f.times))
	file, err := grafana.Rules(e.assets)
	require.NoError(t, err)
	severities := map[string]alerts.Severity{}
	for _, a := range alerts.Table() {
		severities[a.ID] = a.Severity
	}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			w, err := grafana.NewWatcher(&r, &g)
			require.NoError(t, err)
			id := strings.TrimPrefix(r.UID, "rdma-")
			next := f.times[0]
			for i, at := range f.times {
				if !at.Before(next) {
					require.NoError(t, w.Evaluate(t.Context(), e.influx, at))
					next = at.Add(w.Interval())
				}
				for _, labels := range w.In(grafana.Firing) {
					f.alerts[i] = append(f.alerts[i], alertName(string(severities[id]), id, labels))
				}
			}
		}
	}
	for i := range f.alerts {
		slices.Sort(f.alerts[i])
		f.alerts[i] = slices.Compact(f.alerts[i])
	}
	return f
}

func alertName(severity, id string, labels map[string]string) string {
	text := severity + " " + id
	if labels["device"] != "" {
		text += " " + labels["device"]
	}
	if labels["port"] != "" {
		text += ":" + labels["port"]
	}
	return text
}

// episode is a time in which an alert fires.
type episode struct {
	alert      string
	from, till time.Time
}

// episodes returns when each alert fires, in the order of their begin.
func (f *firing) episodes() []episode {
	var all []episode
	open := map[string]int{}
	for i, at := range f.times {
		for _, name := range f.alerts[i] {
			if _, ok := open[name]; !ok {
				open[name] = len(all)
				all = append(all, episode{alert: name, from: at})
			}
			all[open[name]].till = at
		}
		for name := range open {
			if !slices.Contains(f.alerts[i], name) {
				delete(open, name)
			}
		}
	}
	return all
}

// settled reports whether the alerts are the same as at all evaluations within the tolerance.
func (f *firing) settled(i int) bool {
	for k, at := range f.times {
		if at.Sub(f.times[i]).Abs() <= tolerance && !slices.Equal(f.alerts[k], f.alerts[i]) {
			return false
		}
	}
	return true
}

// requireOfPrometheus has promtool evaluate the rules of Prometheus, and requires the same alerts wherever they have not changed within the
// tolerance, and at no time another alert than those that expected allows.
func (e *engines) requireOfPrometheus(t *testing.T, f *firing, allowed func(at time.Time) []string) {
	t.Helper()
	test := prom.UnitTest{Interval: e.day.every.String(), Series: e.series.Notation()}
	const all = `max by (alertname, severity, device, port) (ALERTS{alertstate="firing"})`
	for i, at := range f.times {
		since := at.Sub(e.firstScrape()).String()
		if f.settled(i) {
			one := prom.UnitExpr{Expr: all, At: since}
			for _, name := range f.alerts[i] {
				one.Samples = append(one.Samples, prom.UnitSample{Labels: labelsOf(name), Value: 1})
			}
			test.Exprs = append(test.Exprs, one)
			continue
		}
		expr := all
		for _, name := range allowed(at) {
			expr += " unless on (alertname, severity, device) ALERTS" + strings.ReplaceAll(labelsOf(name), "{", `{alertstate="firing",`)
		}
		test.Exprs = append(test.Exprs, prom.UnitExpr{Expr: expr, At: since})
	}
	rules, err := filepath.Abs(filepath.Join(e.assets, "assets/prometheus/rules.yml"))
	require.NoError(t, err)
	units := prom.UnitFile{RuleFiles: []string{rules}, Interval: evaluation.String(), Tests: []prom.UnitTest{test}}
	require.NoError(t, prom.Promtool(rig.Program(t, "PROMTOOL_BIN", "tools/promtool")).TestUnits(t.Context(), units, t.TempDir()))
}

// labelsOf returns the labels of an alert in Prometheus.
func labelsOf(name string) string {
	severity, rest, _ := strings.Cut(name, " ")
	id, of, _ := strings.Cut(rest, " ")
	device, port, _ := strings.Cut(of, ":")
	text := fmt.Sprintf("{alertname=%q,severity=%q", gen.AlertName(id), severity)
	if device != "" {
		text += fmt.Sprintf(",device=%q", device)
	}
	if port != "" {
		text += fmt.Sprintf(",port=%q", port)
	}
	return text + "}"
}
