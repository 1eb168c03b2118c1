package grafana

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/assets/grafana"
	"rdma_events/assets/influxdb"
	"rdma_events/tests/history"
	"rdma_events/tests/influx"
	"rdma_events/tests/rig"
)

// writeAssets has the program write the files for InfluxDB into a directory, where Rules and Dashboards find them.
func writeAssets(t *testing.T, flags ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	args := append([]string{"assets", "-engine", "influxdb", "-out", filepath.Join(dir, "assets")}, flags...)
	out, err := exec.Command(rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), args...).CombinedOutput()
	require.NoError(t, err, string(out))
	return dir
}

// newSharedDatabase creates a database to which other programs write too, as docs/how-to/large-clusters.md
// describes, and returns the directory of the rules and dashboards for it.
func newSharedDatabase(t *testing.T, database string) (Source, string) {
	t.Helper()
	src := Source{Server: influx.Start(t), Database: database}
	require.NoError(t, src.Server.CreateDatabase(t.Context(), database))
	dir := writeAssets(t, "-database", database)
	statements, err := os.ReadFile(filepath.Join(dir, "assets/influxdb/downsampling.influxql"))
	require.NoError(t, err)
	_, err = src.Query(t.Context(), string(statements))
	require.NoError(t, err)
	return src, dir
}

func TestSharedDatabaseIsReadInItsPolicy(t *testing.T) {
	src, dir := newSharedDatabase(t, "telegraf")
	place, err := influxdb.In("telegraf")
	require.NoError(t, err)
	now := time.Now()
	w := src.Server.NewWriter(t.Context(), src.Database).In(place.Raw)
	c := history.Config{
		Start: now.Add(-time.Hour), End: now, Interval: 10 * time.Second,
		Hosts: []history.Host{{Name: "h", Profile: "fleet1", Timeline: "[[link]]\nat = \"30m\"\n[[app]]\nname = \"job\"", Applications: true}},
	}
	require.NoError(t, c.Write(t.Context(), w))
	f := history.Fabric{
		Groups: 1, Size: 2, Name: func(host int) string { return []string{"h", "i"}[host] }, Start: c.Start, End: c.End, Interval: c.Interval,
	}
	require.NoError(t, f.Write(w))
	require.NoError(t, w.Flush())
	require.Equal(t, []string{"rdma-port-down"}, firingFrom(t, src, dir, now))
	require.Empty(t, firingFrom(t, src, root, now), "the default policy has none of the points")

	boards, err := Dashboards(dir)
	require.NoError(t, err)
	for uid, d := range boards {
		choice := defaultChoice(d)
		require.Equal(t, Choice{"policy": {place.Raw}}, choice, uid)
		choice["host"], choice["device"] = []string{"h"}, []string{"sim0"}
		requireVariables(t, src, d, choice)
	}
	requests, err := Requests(boards["rdma-events-fleet"], defaultChoice(boards["rdma-events-fleet"]), Range{now.Add(-time.Hour), now})
	require.NoError(t, err)
	for _, q := range requests {
		if q.Title == "Ports down" && q.Panel.Type == "stat" {
			requireValues(t, src, q.Title, q.Query)
		}
	}
}

func TestTelegrafWritesToASharedDatabase(t *testing.T) {
	src, dir := newSharedDatabase(t, "telegraf")
	r := rig.Start(t, rig.Config{
		Plugin: "[[inputs.rdma_events]]\n  backend = \"sim\"\n",
		More:   outputFor(t, filepath.Join(dir, "assets/telegraf/shared-database.conf"), src),
	})
	require.Eventually(t, func() bool {
		series, err := src.Query(t.Context(), `SELECT last(state_name) FROM "rdma_raw"."rdma_port" GROUP BY device`)
		return err == nil && len(series) > 0
	}, patience, 100*time.Millisecond)
	r.Stop()
	series, err := src.Query(t.Context(), "SELECT * FROM rdma_port")
	require.NoError(t, err)
	require.Empty(t, series, "the default policy is that of the other programs")
}

// defaultChoice returns the policy that a dashboard queries before the user chooses another.
func defaultChoice(d *grafana.Dashboard) Choice {
	c := Choice{}
	for _, v := range d.Templating.List {
		if v.Name == "policy" {
			c[v.Name] = []string{fmt.Sprint(v.Current.Value)}
		}
	}
	return c
}

// firingFrom evaluates the rules of a directory that Grafana evaluates every
// minute, at a moment and a minute later, and returns those that fire.
func firingFrom(t *testing.T, src Source, dir string, now time.Time) []string {
	t.Helper()
	file, err := Rules(dir)
	require.NoError(t, err)
	var firing []string
	for _, rule := range file.Groups[0].Rules {
		w, err := NewWatcher(&rule, &file.Groups[0])
		require.NoError(t, err)
		for _, at := range []time.Time{now, now.Add(time.Minute)} {
			require.NoError(t, w.Evaluate(t.Context(), src, at))
		}
		if len(w.In(Firing)) > 0 {
			firing = append(firing, rule.UID)
		}
	}
	return firing
}
