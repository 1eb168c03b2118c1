package twins

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
	test := prom.UnitTest{Interval: interval.String(), Series: w.series.Notation()}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			watcher, err := grafana.NewWatcher(&r, &g)
			require.NoError(t, err)
			f := firing{alert: gen.AlertName(strings.TrimPrefix(r.UID, "rdma-")), every: watcher.Interval(), alerts: map[time.Duration][]string{}}
			for at := time.Duration(0); at < hour; at += f.every {
				require.NoError(t, watcher.Evaluate(t.Context(), w.influx, hourStart().Add(at+askew)))
				f.alerts[at] = labelledAlerts(watcher.In(grafana.Firing))
			}
			f.requireFiresAndClears(t)
			test.Exprs = append(test.Exprs, f.exprs()...)
		}
	}
	requireUnits(t, test)
}

// requireUnits has promtool run a unit test of the committed rules.
func requireUnits(t *testing.T, test prom.UnitTest) {
	t.Helper()
	f := prom.UnitFile{RuleFiles: []string{rulesFile(t)}, Interval: interval.String(), Tests: []prom.UnitTest{test}}
	require.NoError(t, prom.Promtool(rig.Program(t, "PROMTOOL_BIN", "tools/promtool")).TestUnits(t.Context(), f, t.TempDir()))
}

// identifyingLabels returns the labels that distinguish alerts, by their names in Prometheus.
func identifyingLabels() []string {
	return []string{"site", "rack", "rail", "host", "plugin_instance", "device", "port", "vector", "method", "call", "app", "unit", "object",
		"own_group", "peer_group", "peer_host", "peer_device", "scope"}
}

// labelledAlerts returns the alerts of InfluxDB with the labels of Prometheus.
func labelledAlerts(alerts []map[string]string) []string {
	all := []string{}
	for _, labels := range alerts {
		var parts []string
		for _, name := range identifyingLabels() {
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
	expr := fmt.Sprintf(`max by (%s) (ALERTS{alertname=%q, alertstate="firing"})`, strings.Join(identifyingLabels(), ", "), f.alert)
	for _, at := range f.settled() {
		e := prom.UnitExpr{Expr: expr, At: (at + askew - early - offset).String()}
		for _, labels := range f.alerts[at] {
			e.Samples = append(e.Samples, prom.UnitSample{Labels: labels, Value: 1})
		}
		all = append(all, e)
	}
	return all
}
