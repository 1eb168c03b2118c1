//go:build schema

package loki

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"rdma_events/assets/grafana"
	"rdma_events/internal/telemetry/measure"
	"rdma_events/tests/rig"
)

// plugin is a simulated host on which each kind of moment happens that a dashboard asks for.
const plugin = `
[[inputs.rdma_events]]
  backend = "sim"
  [inputs.rdma_events.sim]
    profile = "fleet1"
    scenario = %q
  [inputs.rdma_events.evidence]
    gid_interval = "1s"
  [inputs.rdma_events.applications]
    objects = true
    events = true
`

const scenario = `
[[link]]
at = "3s"
down_for = "4s"
why = "no_cable"

[[event]]
at = "3s"
type = "device_fatal"

[[gid]]
at = "12s"
away = "2s"
to = 7

[[event]]
at = "12s"
type = "gid_change"

[[event]]
at = "14s"
type = "gid_change"

[[app]]
at = "1s"
name = "python3"
event = "qp_fatal"
event_at = "10s"
`

// program returns the path of a program that make test-loki builds.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../build", name))
	require.NoError(t, err)
	require.FileExists(t, path, "run: make test-loki")
	return path
}

// Each moment that Telegraf writes is in the Loki once, with its time, and each log query of the dashboards finds lines of its
// measurement on this host and none on another one.
func TestDashboardsFindTheirMomentsInALoki(t *testing.T) {
	assets := filepath.Join(t.TempDir(), "assets")
	write := exec.CommandContext(t.Context(), program(t, "rdma-events"), "assets", "-engine", "prometheus", "-loki", "rdma-loki", "-out", assets)
	out, err := write.CombinedOutput()
	require.NoError(t, err, string(out))
	server, err := Open(t.Context(), program(t, "tools/loki/loki"), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	began := time.Now()
	telegraf := startTelegraf(t, filepath.Join(assets, "loki.conf"), server.URL())
	queries := logQueries(t, filepath.Join(assets, "dashboards"))
	require.Len(t, queries, 8, "the queries of five annotations and five tables, two of which ask the same")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		for query := range queries {
			lines, err := server.Lines(t.Context(), resolve(query, ".*"), began, time.Now())
			require.NoError(c, err)
			assert.NotEmpty(c, lines, query)
		}
	}, 2*time.Minute, time.Second)
	telegraf.Stop()

	for query, measurement := range queries {
		lines, err := server.Lines(t.Context(), resolve(query, ".*"), began, time.Now())
		require.NoError(t, err)
		for _, l := range lines {
			require.Equal(t, measurement, l.Labels["measurement"], query)
			require.Equal(t, "h1", l.Labels["host"], query)
			require.Equal(t, "sim0", l.Labels["device"], query)
		}
		lines, err = server.Lines(t.Context(), resolve(query, "elsewhere"), began, time.Now())
		require.NoError(t, err)
		require.Empty(t, lines, query)
	}
	points := telegraf.Points()
	for _, m := range moments() {
		lines, err := server.Lines(t.Context(), `{job="rdma_events",measurement="`+m+`"}`, began, time.Now())
		require.NoError(t, err)
		var stored, written []int64
		for _, l := range lines {
			stored = append(stored, l.At)
		}
		for _, p := range rig.Select(points, m) {
			written = append(written, p.Time)
		}
		require.ElementsMatch(t, written, stored, m)
		t.Logf("%s: %d", m, len(stored))
	}
}

// startTelegraf runs Telegraf and the plugin with the shipped configuration for a Loki.
func startTelegraf(t *testing.T, conf, url string) *rig.Telegraf {
	t.Helper()
	t.Setenv("TELEGRAF_BIN", program(t, "tools/telegraf-large"))
	text, err := os.ReadFile(conf)
	require.NoError(t, err)
	edited := strings.Replace(string(text), "http://127.0.0.1:3100", url, 1)
	require.NotEqual(t, string(text), edited)
	path := filepath.Join(t.TempDir(), "scenario.toml")
	require.NoError(t, os.WriteFile(path, []byte(scenario), 0o600))
	return rig.Start(t, rig.Config{
		Plugin: fmt.Sprintf(plugin, path),
		More:   edited + "\n[global_tags]\n  host = \"h1\"\n  site = \"s1\"\n  rack = \"r1\"\n  rail = \"1\"\n",
	})
}

// moments returns the measurements that loki.conf has to write.
func moments() []string {
	all := []string{"rdma_problem"}
	for _, m := range measure.All() {
		if m.Emitted == measure.AsItHappens {
			all = append(all, m.Name)
		}
	}
	return all
}

// logQueries returns the log queries of the dashboards in a directory, each with its measurement.
func logQueries(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	name := regexp.MustCompile(`measurement="(\w+)"`)
	queries := map[string]string{}
	add := func(source grafana.DataSource, expr string) {
		if source.Type == "loki" {
			require.Equal(t, "rdma-loki", source.UID)
			queries[expr] = name.FindStringSubmatch(expr)[1]
		}
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		var d grafana.Dashboard
		require.NoError(t, json.Unmarshal(text, &d))
		for _, a := range d.Annotations.List {
			add(a.DataSource, a.Expr)
		}
		for _, p := range d.All() {
			for _, target := range p.Targets {
				if target.DataSource != nil {
					add(*target.DataSource, target.Expr)
				}
			}
		}
	}
	return queries
}

// resolve sets the variables of a dashboard's query: the host to a pattern, all others to "All".
func resolve(query, host string) string {
	return regexp.MustCompile(`\$\w+`).ReplaceAllStringFunc(query, func(variable string) string {
		if variable == "$host" {
			return host
		}
		return ".*"
	})
}
