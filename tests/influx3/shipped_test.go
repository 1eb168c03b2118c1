package influx3

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/docs/document"
	"rdma_events/internal/telemetry/measure"
	"rdma_events/tests/grafana"
)

const (
	root     = "../.."
	pagePath = root + "/docs/reference/dashboards.md"
	section  = "influxdb3" // of that page
)

var update = flag.Bool("update", false, "write the list of queries into docs/reference/dashboards.md")

// shippedSchema has the tags of the plugin's measurements, and those that Telegraf adds.
func shippedSchema() Schema {
	added := []string{"host", "instance", "site", "rack", "rail"}
	schema := Schema{"infiniband": append([]string{"device", "port"}, added...)} // Telegraf's own input
	for _, m := range measure.All() {
		tags := slices.Clone(added)
		for _, t := range m.Tags {
			tags = append(tags, t.Name)
		}
		schema[m.Name] = tags
	}
	return schema
}

// query is a query of a panel, a variable, an annotation or a rule.
type query struct{ place, text string }

// shippedQueries returns all queries of the dashboards and of the alert rules, as Grafana sends them.
func shippedQueries(t *testing.T) []query {
	t.Helper()
	now := time.Unix(1_800_000_000, 0)
	dashboards, err := grafana.Dashboards(root)
	require.NoError(t, err)
	var all []query
	for uid, d := range dashboards {
		requests, err := grafana.Requests(d, grafana.Choice{}, grafana.Range{From: now.Add(-time.Hour), To: now})
		require.NoError(t, err, uid)
		for _, r := range requests {
			all = append(all, query{d.Title + ": " + r.Title, r.Query})
		}
		for _, v := range d.Templating.List {
			if v.Type == "query" {
				all = append(all, query{d.Title + ": variable " + v.Name, grafana.Render(v.Query, d.Templating.List, grafana.Choice{})})
			}
		}
		for _, text := range grafana.Annotations(d, grafana.Choice{}, grafana.Range{From: now.Add(-time.Hour), To: now}) {
			all = append(all, query{d.Title + ": annotations", text})
		}
	}
	rules, err := grafana.Rules(root)
	require.NoError(t, err)
	for _, g := range rules.Groups {
		for i := range g.Rules {
			for _, r := range grafana.RuleRequests(&g.Rules[i], now) {
				all = append(all, query{"rule " + r.Title, r.Query})
			}
		}
	}
	require.Greater(t, len(all), 150)
	return all
}

// The page lists what the documentation of InfluxDB 3 excludes. A query that becomes unsupported fails this test, and one that
// becomes supported too.
func TestUnsupportedQueriesAreListed(t *testing.T) {
	excluded := map[string][]string{} // the places of each finding
	supported, total := 0, 0
	for _, q := range shippedQueries(t) {
		found, err := Check(q.text, shippedSchema())
		require.NoError(t, err, "%s: %s", q.place, q.text)
		total++
		if len(found) == 0 {
			supported++
		}
		for _, f := range found {
			row := fmt.Sprintf("[%s](%s%s)", f.Reason, Documentation, f.Page)
			if !slices.Contains(excluded[row], q.place) {
				excluded[row] = append(excluded[row], q.place)
			}
		}
	}
	text := listText(supported, total, excluded)
	if *update {
		require.NoError(t, document.Rewrite(pagePath, section, text))
	}
	page, err := os.ReadFile(filepath.FromSlash(pagePath))
	require.NoError(t, err)
	require.Contains(t, string(page), text, "run: go test ./tests/influx3 -update")
}

func listText(supported, total int, excluded map[string][]string) string {
	var b strings.Builder
	if supported == total {
		fmt.Fprintf(&b, "By that documentation, InfluxDB 3 knows the syntax of all %d queries.\n", total)
		return b.String()
	}
	fmt.Fprintf(&b, "By that documentation, InfluxDB 3 supports %d of the %d queries. The others, by what excludes them:\n\n", supported, total)
	b.WriteString("| not supported | panels and rules |\n|---|---|\n")
	rows := make([]string, 0, len(excluded))
	for reason, places := range excluded {
		slices.Sort(places)
		rows = append(rows, fmt.Sprintf("| %s | %s |\n", reason, strings.Join(places, "; ")))
	}
	slices.Sort(rows)
	b.WriteString(strings.Join(rows, ""))
	return b.String()
}
