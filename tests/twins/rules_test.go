package twins

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"rdma_events/assets/gen"
	"rdma_events/tests/grafana"
	"rdma_events/tests/prom"
	"rdma_events/tests/rig"
)

// firing has the alerts of a rule at each evaluation, as sets of labels in promtool's notation.
type firing struct {
	alert  string // its name in Prometheus
	every  time.Duration
	alerts map[time.Duration][]string
}

// tolerance is how many evaluations one engine may be behind the other.
const tolerance = 2

// compareRules evaluates each rule in InfluxDB, and has promtool require the same alerts of Prometheus wherever
// InfluxDB's have not changed within two evaluations.
func (w *twins) compareRules(t *testing.T) {
	file, err := grafana.Rules(root)
	require.NoError(t, err)
	test := prom.UnitTest{Interval: interval.String(), Series: w.series.notation()}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			watcher, err := grafana.NewWatcher(&r, &g)
			require.NoError(t, err)
			f := firing{alert: gen.AlertName(strings.TrimPrefix(r.UID, "rdma-")), every: watcher.Interval(), alerts: map[time.Duration][]string{}}
			for at := time.Duration(0); at < hour; at += f.every {
				require.NoError(t, watcher.Evaluate(t.Context(), w.influx, start().Add(at+askew)))
				f.alerts[at] = labelled(watcher.In(grafana.Firing))
			}
			f.requireFiresAndClears(t)
			test.Exprs = append(test.Exprs, f.exprs()...)
		}
	}
	text, err := yaml.Marshal(prom.UnitFile{RuleFiles: []string{rulesFile(t)}, Interval: interval.String(), Tests: []prom.UnitTest{test}})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "hour.yml")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	require.NoError(t, prom.Promtool(rig.Program(t, "PROMTOOL_BIN", "tools/promtool")).TestRules(t.Context(), path))
}

// identifying are the labels that distinguish alerts, by their names in Prometheus.
func identifying() []string {
	return []string{"site", "rack", "rail", "host", "plugin_instance", "device", "port", "vector", "method", "call", "app", "unit", "object",
		"own_group", "peer_group", "peer_host", "peer_device", "scope"}
}

// labelled returns alerts of InfluxDB with the labels of Prometheus.
func labelled(alerts []map[string]string) []string {
	all := []string{}
	for _, labels := range alerts {
		var parts []string
		for _, name := range identifying() {
			if value := labels[strings.TrimPrefix(name, "plugin_")]; value != "" {
				parts = append(parts, fmt.Sprintf("%s=%q", name, value))
			}
		}
		all = append(all, "{"+strings.Join(parts, ",")+"}")
	}
	slices.Sort(all)
	return all
}

// settled are the evaluations that are not within the tolerance of a change.
func (f *firing) settled() []time.Duration {
	var all []time.Duration
	for _, at := range slices.Sorted(maps.Keys(f.alerts)) {
		calm := true
		for d := -tolerance * f.every; d <= tolerance*f.every; d += f.every {
			near, ok := f.alerts[at+d]
			calm = calm && (!ok || slices.Equal(near, f.alerts[at]))
		}
		if calm {
			all = append(all, at)
		}
	}
	return all
}

// requireFiresAndClears requires that the comparison is of something: the rule's own host had an alert, and has none
// at the end.
func (f *firing) requireFiresAndClears(t *testing.T) {
	t.Helper()
	at := f.settled()
	require.NotEmpty(t, at, f.alert)
	require.True(t, slices.ContainsFunc(at, func(at time.Duration) bool { return len(f.alerts[at]) > 0 }), "%s: fires", f.alert)
	if f.alert != gen.AlertName("link-degrading") { // it looks back for two hours
		require.Empty(t, f.alerts[at[len(at)-1]], "%s: clears", f.alert)
	}
}

func (f *firing) exprs() []prom.UnitExpr {
	var all []prom.UnitExpr
	expr := fmt.Sprintf(`max by (%s) (ALERTS{alertname=%q, alertstate="firing"})`, strings.Join(identifying(), ", "), f.alert)
	for _, at := range f.settled() {
		e := prom.UnitExpr{Expr: expr, At: (at + askew - early - offset).String()}
		for _, labels := range f.alerts[at] {
			e.Samples = append(e.Samples, prom.UnitSample{Labels: labels, Value: 1})
		}
		all = append(all, e)
	}
	return all
}

// notation returns the series in promtool's notation, with a mark of staleness where a series ends.
func (s *series) notation() []prom.UnitSeries {
	var all []prom.UnitSeries
	for _, name := range slices.Sorted(maps.Keys(s.values)) {
		values := s.values[name]
		var b strings.Builder
		var before string
		repeats := 0
		flush := func() {
			if before != "" {
				fmt.Fprintf(&b, "%sx%d ", before, repeats)
			}
		}
		for i := range s.last + 1 {
			token := "_"
			if v, ok := values[i]; ok {
				token = strconv.FormatFloat(v, 'f', -1, 64)
			} else if _, ended := values[i-1]; ended {
				token = "stale"
			}
			if token == before && token != "stale" {
				repeats++
				continue
			}
			flush()
			before, repeats = token, 0
		}
		flush()
		all = append(all, prom.UnitSeries{Series: name, Values: strings.ReplaceAll(strings.TrimSpace(b.String()), "stalex0", "stale")})
	}
	return all
}
