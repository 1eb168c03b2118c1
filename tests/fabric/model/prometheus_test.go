package model

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"rdma_events/tests/history"
	"rdma_events/tests/prom"
	"rdma_events/tests/rig"
	"rdma_events/tests/scrapes"
)

// askPrometheus has Telegraf shape the lines of the last two minutes, has a Prometheus answer from what scrapes would find,
// and asks the rules.
func askPrometheus(t *testing.T, p *played) {
	t.Helper()
	began := time.Now()
	const span = 2 * time.Minute
	s, hosts := servePrometheus(t, p, span)
	t.Logf("run %d: a Prometheus with %d hosts, %v in %v", p.seed, hosts, span, time.Since(began).Round(time.Second))
	text, err := os.ReadFile(filepath.Join(root, "assets/prometheus/rules.yml"))
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Record, Expr string }
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &file))
	var times timings
	var found alertNames
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if !strings.Contains(r.Expr, "rdma_fabric") {
				continue
			}
			begun := time.Now()
			v, err := s.Query(t.Context(), r.Expr, queryTime())
			require.NoError(t, err, r.Alert)
			times.add(t, timing{r.Alert + r.Record, time.Since(begun), len(v)})
			for _, one := range v {
				labels := map[string]string{}
				for name, value := range one.Metric {
					labels[string(name)] = string(value)
				}
				found.addName(t, r.Alert, labels)
			}
		}
	}
	found.sortNames()
	require.Equal(t, p.expected(outsideCutGroups), found, "what is planted, and nothing else")
	t.Logf("run %d, Prometheus, %d hosts:\n%s", p.seed, hosts, times.table())
	counted := func(expr string) int {
		v, err := s.Query(t.Context(), expr, queryTime())
		require.NoError(t, err)
		require.Len(t, v, 1, expr)
		return int(v[0].Value)
	}
	groups := counted(`count({__name__=~"rdma_fabric_.+",__name__!~"rdma_fabric_(port|peer)_.+"})`)
	ports := counted(`count({__name__=~"rdma_fabric_port_.+"})`)
	t.Logf("10000 hosts of 8 ports in Prometheus: %d series", 10_000*groups/hosts+80_000*ports/hosts)
}

// servePrometheus returns a Prometheus with what it would have scraped of all hosts until they are asked, and their number.
func servePrometheus(t *testing.T, p *played, span time.Duration) (s *prom.Server, hosts int) {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join(root, "assets/prometheus/telegraf.conf"))
	require.NoError(t, err)
	output, err := scrapes.ReadOutput(string(text))
	require.NoError(t, err)
	telegraf, err := scrapes.Start(rig.Program(t, "TELEGRAF_LARGE_BIN", "tools/telegraf-large"), string(text), dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, telegraf.Close()) }()
	name := filepath.Join(dir, "scrapes.om")
	f, err := os.Create(name)
	require.NoError(t, err)
	defer f.Close()
	out := bufio.NewWriterSize(f, 1<<20)
	first := queryTime().Add(-span)
	require.NoError(t, p.reports(first, span).Each(func(h history.FabricHost, lines []byte) error {
		hosts++
		metrics, err := telegraf.Shape(lines)
		if err != nil {
			return err
		}
		return output.Each(metrics, first.Add(7*time.Second), queryTime(), scrape, func(at time.Time, found []*dto.MetricFamily) error {
			scrapes.Label(found, "rdma", h.Name+":9273")
			return scrapes.WriteOpenMetrics(out, at, found)
		})
	}))
	require.NoError(t, scrapes.End(out))
	require.NoError(t, out.Flush())
	require.NoError(t, prom.Promtool(rig.Program(t, "PROMTOOL_BIN", "tools/promtool")).Blocks(t.Context(), name, dir, 0))
	require.NoError(t, os.Remove(name))
	s, err = prom.Open(t.Context(), prom.Config{Program: rig.Program(t, "PROMETHEUS_BIN", "tools/prometheus"), Dir: dir, Lookback: 2 * scrape})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s, hosts
}
