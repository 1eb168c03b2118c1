package twins

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	board "rdma_events/assets/grafana"
	"rdma_events/tests/grafana"
)

// viewTimes returns the times at which the dashboards are viewed: during the faults and after them. Each is one second after a
// scrape, and the range begins just before one, so that both engines have the same points at both ends.
func viewTimes() []time.Duration {
	return []time.Duration{33*time.Minute + offset + time.Second, 59*time.Minute + offset + time.Second}
}

// comparePanels shows each dashboard in both engines, that of a host and of a device for each host of the fleet.
func (w *twins) comparePanels(t *testing.T) {
	ours, err := grafana.Dashboards(root)
	require.NoError(t, err)
	found := map[string]bool{} // the differences that have been met
	for _, file := range []string{"overview", "host", "device", "applications", "fabric"} {
		theirs := prometheusDashboard(t, file)
		d := ours[strings.TrimSuffix(theirs.UID, "-prometheus")]
		require.NotNil(t, d, theirs.UID)
		for _, at := range viewTimes() {
			for _, choice := range variableChoices(file) {
				v := view{
					twins: w, ctx: t.Context(), choice: choice, title: fmt.Sprintf("%s %s, %v", file, choice["host"], at),
					span: grafana.Range{From: hourStart().Add(80 * time.Second), To: hourStart().Add(at)},
				}
				v.compare(t, d, theirs, found)
			}
		}
	}
	for _, e := range knownDifferences() {
		require.True(t, found[e.panel], "the difference of %s is no more: remove it", e.panel)
	}
}

func prometheusDashboard(t *testing.T, file string) *board.Dashboard {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "assets/prometheus/dashboards", file+".json"))
	require.NoError(t, err)
	d, err := board.ParseDashboard(text)
	require.NoError(t, err)
	return d
}

// variableChoices returns the values of the variables with which a dashboard is shown.
func variableChoices(file string) []grafana.Choice {
	if file == "overview" || file == "applications" || file == "fabric" {
		return []grafana.Choice{{}}
	}
	var all []grafana.Choice
	for _, m := range fleetMembers() {
		c := grafana.Choice{"host": {m.name}}
		if file == "device" {
			c["device"] = []string{"sim0"}
		}
		if m.instance != "b" && (!strings.HasPrefix(m.name, "healthy") || m.name == "healthy29") { // the healthy ones are alike
			all = append(all, c)
		}
	}
	return all
}

// view is one look at a dashboard.
type view struct {
	*twins
	ctx    context.Context
	title  string
	choice grafana.Choice
	span   grafana.Range
}

func (v *view) compare(t *testing.T, ours, theirs *board.Dashboard, found map[string]bool) {
	t.Helper()
	panels := theirs.All()
	for _, p := range ours.All() {
		i := slices.IndexFunc(panels, func(q board.Panel) bool { return q.ID == p.ID })
		if i < 0 || len(p.Targets) == 0 || needsDetail(&panels[i]) {
			continue
		}
		require.Equal(t, p.Title, panels[i].Title)
		a, err := v.fromInfluxDB(ours, &p)
		require.NoError(t, err, "%s: %s", v.title, p.Title)
		b, err := v.fromPrometheus(theirs, &panels[i])
		require.NoError(t, err, "%s: %s", v.title, p.Title)
		name := fmt.Sprintf("%s %d", ours.UID, p.ID)
		e := differenceOf(name)
		if e != nil && e.allowed != nil {
			before := answerDifferences(a, b, &p)
			a, b = e.allowed(v, a), e.allowed(v, b)
			found[name] = found[name] || len(before) > 0
		}
		unlike := answerDifferences(a, b, &p)
		if e != nil && e.allowed == nil {
			found[name] = found[name] || len(unlike) > 0
			continue
		}
		for _, u := range unlike {
			t.Errorf("%s: panel %q (%s): %s", v.title, p.Title, name, u)
		}
	}
}

// needsDetail reports whether the panel needs an option that the shipped file has off.
func needsDetail(p *board.Panel) bool { return strings.Contains(p.Description, "detail = true") }
