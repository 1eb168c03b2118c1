package grafana

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/assets/grafana"
	"rdma_events/assets/influxdb"
	"rdma_events/tests/history"
	"rdma_events/tests/influx"
	"rdma_events/tests/rig"
)

// patience is how long a test waits for an effect that a scenario has within half a
// minute: the machine may be busy.
const patience = 90 * time.Second

// liveHost is a host with real Telegraf and the real plugin on the simulator.
type liveHost struct {
	name     string
	timeline string
	options  string // of the plugin
	probe    string // options of its probe
	fires    []string
	// over reports whether the effects of the scenario are in Telegraf's output.
	over func(points []rig.Point) bool
	// undying: the worker stays in the kernel after the plugin has killed it.
	undying bool
}

// fieldAtLeast returns a condition: in the last point of a measurement of sim0, a field has at least this value.
func fieldAtLeast(measurement, field string, least int64, tags ...string) func([]rig.Point) bool {
	return func(points []rig.Point) bool {
		p := rig.Last(points, measurement, append([]string{"device", "sim0"}, tags...)...)
		return p.Fields[field] != nil && p.Int(field) >= least
	}
}

func fieldEquals(measurement, field string, value any) func([]rig.Point) bool {
	return func(points []rig.Point) bool {
		return rig.Last(points, measurement, "device", "sim0").Fields[field] == value
	}
}

// workerRuns reports whether the worker is running. If the last points came from a worker that restarts, the rules would treat its
// state as permanent.
func workerRuns(points []rig.Point) bool {
	return fieldEquals("rdma_device", "worker_state", "running")(points)
}

func allOf(conds ...func([]rig.Point) bool) func([]rig.Point) bool {
	return func(points []rig.Point) bool {
		return !slices.ContainsFunc(conds, func(cond func([]rig.Point) bool) bool { return !cond(points) })
	}
}

const slow = "[[fault]]\nkind = \"slow\"\nfactor = 60"

// hangingRound is a call into the library that hangs until the plugin kills its
// worker.
const hangingRound = "[[fault]]\nkind = \"hang_round\"\nat = \"4s\"\nfor = \"20s\""

// often is an interval at which three rounds get lost within a second.
const often = "interval = \"200ms\"\n    timeout = \"100ms\""

// configured demands that the port is active. A port is remembered only after a minute, which is too long here.
const configured = "[[inputs.rdma_events.expected]]\n    devices = [\"sim0\"]"

func liveHosts() []liveHost {
	return []liveHost{
		{name: "healthy", over: fieldAtLeast("rdma_cq_probe", "rounds", 8)},
		{
			name: "port-down", timeline: "[[link]]\nat = \"4s\"", options: configured, fires: []string{"port-down"},
			over: fieldEquals("rdma_port", "up", int64(0)),
		},
		{
			name: "port-down, but expected", timeline: "[[link]]\nat = \"4s\"", options: "expected_down = [\"sim0:1\"]\n" + configured,
			over: fieldEquals("rdma_port", "up", int64(0)),
		},
		{
			name: "port-down, but active for seconds only", timeline: "[[link]]\nat = \"4s\"", over: fieldEquals("rdma_port", "up", int64(0)),
		},
		{
			name: "port-flapping", timeline: "[[link]]\nat = \"4s\"\nevery = \"600ms\"\ntimes = 4\ndown_for = \"40ms\"",
			fires: []string{"port-flapping"}, over: fieldAtLeast("rdma_port", "flaps", 4),
		},
		{
			name: "gid-moved", timeline: "[[gid]]\nat = \"4s\"\nindex = 3\nto = 6\naway = \"200ms\"",
			fires: []string{"gid-moved"}, over: fieldAtLeast("rdma_port", "gid_moves", 1),
		},
		{
			name: "link-disagrees", timeline: hangingAck("4s", "6s") + "[[link]]\nat = \"4500ms\"\ndown_for = \"40ms\"",
			options: `state_interval = "1s"`, fires: []string{"link-disagrees"}, over: fieldAtLeast("rdma_port", "missed_transitions", 1),
		},
		{
			name: "device-missing", timeline: "[[fault]]\nkind = \"removed\"\nat = \"4s\"",
			fires: []string{"device-missing", "device-fatal"}, over: fieldEquals("rdma_device", "present", int64(0)),
		},
		{
			name: "device-missing, but renamed", timeline: "[[fault]]\nkind = \"renamed\"\nat = \"4s\"\nto = \"mlx5_0\"",
			over: fieldEquals("rdma_device", "reason", "renamed"),
		},
		{
			name: "device-fatal", timeline: "[[event]]\ntype = \"device_fatal\"\nat = \"4s\"", fires: []string{"device-fatal"},
			over: fieldAtLeast("rdma_device", "fatals", 1),
		},
		{
			name: "unacked-events", timeline: hangingAck("4s", "60s"), fires: []string{"unacked-events"},
			over: allOf(fieldAtLeast("rdma_async", "released", 1, "port", "1"), workerRuns),
		},
		{
			name: "command-stuck", timeline: "[[command]]\nat = \"4s\"\ncall = \"query_port\"\nwhat = \"fails\"", options: `state_interval = "1s"`,
			fires: []string{"command-stuck"}, over: fieldAtLeast("rdma_command", "stuck", 1, "call", "query_port"),
		},
		{
			name: "lost-events", timeline: "[[fault]]\nkind = \"lost_event\"\nat = \"4s\"\nfor = \"2s\"", probe: often,
			fires: []string{"lost-events"}, over: fieldAtLeast("rdma_cq_probe", "lost_events", 3),
		},
		{
			name: "lost-completions", timeline: "[[fault]]\nkind = \"lost_completion\"\nat = \"4s\"\nfor = \"2s\"", probe: often,
			fires: []string{"lost-completions"}, over: fieldAtLeast("rdma_cq_probe", "lost_completions", 3, "method", "ud_send"),
		},
		{
			name: "wake-slow", timeline: slow, fires: []string{"wake-slow"}, over: fieldAtLeast("rdma_cq_probe", "rounds", 8),
		},
		{
			name:     "worker-down",
			timeline: "[[fault]]\nkind = \"crash\"\nat = \"4s\"\n[[fault]]\nkind = \"open_error\"\nerror = \"no_permission\"\nat = \"4s\"",
			fires:    []string{"worker-down"}, over: fieldEquals("rdma_device", "reason", "no_permission"),
		},
		{
			name: "worker-down, stuck", timeline: hangingRound, undying: true,
			fires: []string{"worker-down"}, over: fieldEquals("rdma_device", "worker_state", "stuck"),
		},
		{
			name: "worker-down, but killed and replaced", timeline: hangingRound,
			over: allOf(fieldAtLeast("rdma_device", "worker_restarts", 1), workerRuns),
		},
		{
			name: "worker-restarts", timeline: "[[fault]]\nkind = \"crash\"\nat = \"4s\"\nevery = \"3s\"\ntimes = 4",
			fires: []string{"worker-restarts"}, over: allOf(fieldAtLeast("rdma_device", "crashes", 4), workerRuns),
		},
		{name: eventful, timeline: eventfulTimeline, options: traced, probe: often, over: allOf(
			fieldAtLeast("rdma_port", "flaps", 4), fieldAtLeast("rdma_cq_probe", "lost_completions", 1, "method", "ud_send"),
			fieldAtLeast("rdma_device", "worker_restarts", 1), fieldAtLeast("rdma_app_hang", "threads", 1), fieldAtLeast("rdma_app_async", "unread_errors", 1),
			func(points []rig.Point) bool {
				return len(rig.Select(points, "rdma_async_event", "event", "unknown_42")) > 0
			},
		)},
	}
}

// eventful is a host whose device has data in every panel. Any rule may fire on
// it.
const (
	eventful         = "eventful"
	eventfulTimeline = `
[[gid]]
at = "4s"
index = 3
to = 6
away = "200ms"

[[link]]
at = "4s"
every = "700ms"
times = 4
down_for = "40ms"
lanes = 2

[[event]]
at = "8s"
type = "unknown_42"

[[event]]
at = "8s"
type = "gid_change"
count = 5

[[fault]]
at = "9s"
kind = "lost_event"
for = "1s"

[[fault]]
at = "11s"
kind = "lost_completion"
for = "1s"

[[fault]]
at = "13s"
kind = "crash"

[[app]]
name = "python3"
unit = "job_1870"
event = "comm_est"
event_at = "4s"

[[app]]
name = "python3"
unit = "job_1870"
state = "error"
event = "qp_fatal"
event_at = "5s"
read_after = "never"

[[fault]]
at = "6s"
kind = "tracer_crash"

# A tracer sees the waits that begin after its start.
[[app]]
at = "7s"
every = "20s"
for = "19s"
name = "python3"
unit = "job_1870"
hang_at = "1s"
`
)

// traced has the plugin report applications.
const traced = `[inputs.rdma_events.applications]
    objects = true
    events = true
    hang_after = "1s"
    by = ["app", "unit"]`

// explained has a cause with all that evidence can have, and evidence from which something is left out.
const explained = `
[[link]]
at = "5h40m"
why = "no_cable"
down_for = "5s"

[[command]]
at = "5h44m55s"
what = "fails"
for = "8s"

[[link]]
at = "5h45m"
down_for = "5s"
`

// begin starts Telegraf, which also writes to the database.
func (h *liveHost) begin(t *testing.T, src Source) *rig.Telegraf {
	t.Helper()
	scenario := filepath.Join(t.TempDir(), "scenario.toml")
	require.NoError(t, os.WriteFile(scenario, []byte(h.timeline), 0o644))
	r := rig.Start(t, rig.Config{
		Plugin: fmt.Sprintf(`[[inputs.rdma_events]]
  backend = "sim"
  %s
  [inputs.rdma_events.probe]
    %s
  [inputs.rdma_events.sim]
    profile = "fleet1"
    scenario = %q
`, h.options, h.probe, scenario),
		More: writeTo(t, src, h.name),
	})
	if h.undying {
		r.Await("a worker", patience, workerRuns)
		workers := r.Workers()
		require.Len(t, workers, 1)
		rig.Hold(t, workers[0])
	}
	return r
}

// writeTo returns the configuration with which Telegraf writes to a database, as a
// host of this name and with the output that the project ships.
func writeTo(t *testing.T, src Source, host string) string {
	t.Helper()
	output := outputFor(t, filepath.Join(root, "assets/telegraf/own-database.conf"), src)
	return strings.Replace(output, `database = "rdma"`, fmt.Sprintf("database = %q", src.Database), 1) +
		fmt.Sprintf("[global_tags]\n  host = %q\n", host)
}

// outputFor returns a file with an output of Telegraf, with the address of the database's server.
func outputFor(t *testing.T, file string, src Source) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(text), "http://127.0.0.1:8086")
	return strings.Replace(string(text), "http://127.0.0.1:8086", src.Server.URL(), 1)
}

// TestRulesAndDashboardsWorkThroughTelegraf fills an InfluxDB through real Telegraf
// and the real plugin, so that rules and dashboards use the lines that users get.
func TestRulesAndDashboardsWorkThroughTelegraf(t *testing.T) {
	src := Source{Server: influx.Start(t), Database: influxdb.Own().Database}
	_, err := src.Query(t.Context(), influxdb.Downsampling)
	require.NoError(t, err)
	writePast(t, src)
	hosts := liveHosts()
	running := make([]*rig.Telegraf, len(hosts))
	for i := range hosts {
		running[i] = hosts[i].begin(t, src)
	}
	for i, h := range hosts {
		points := running[i].Await("the end of the scenario of "+h.name, patience, h.over)
		// One interval more, so that all points before it are written.
		awaitWritten(t, src, h.name, len(rig.Select(points, "rdma_collector"))+1)
	}
	now := time.Now()
	t.Run("rules", func(t *testing.T) { requireRules(t, src, hosts, now) })
	t.Run("dashboards", func(t *testing.T) { requireDashboards(t, src, now) })
}

// writePast writes points that Telegraf cannot write within a minute: the hours with
// which wake-ups are compared, the first quarter of an hour of slow wake-ups, a host
// whose link has been slow for ten minutes, and one that has been silent for a while.
// It also writes what Telegraf's input infiniband would read, of which this Telegraf is without.
func writePast(t *testing.T, src Source) {
	t.Helper()
	now := time.Now()
	for _, past := range []struct {
		host, timeline string
		from, to       time.Duration
	}{
		{"plugin-silent", "", -2 * time.Hour, -12 * time.Minute},
		{"healthy", "", -2 * time.Hour, 0},
		{eventful, explained, -6 * time.Hour, -2 * time.Minute},
		{"wake-slow", "", -2 * time.Hour, -61 * time.Minute},
		{"wake-slow", slow, -16 * time.Minute, 0},
		{"link-slow", "[[link]]\nat = \"5m\"\ndown_for = \"1s\"\nlanes = 1", -15 * time.Minute, 0},
		{"command-slow", "[[command]]\nwhat = \"slow\"\ntook = \"2s\"", -15 * time.Minute, 0},
	} {
		c := history.Config{
			Start: now.Add(past.from), End: now.Add(past.to), Interval: 10 * time.Second,
			Hosts: []history.Host{{Name: past.host, Profile: "fleet1", Timeline: past.timeline}},
		}
		var lines bytes.Buffer
		require.NoError(t, c.Write(t.Context(), &lines))
		require.NoError(t, src.Server.Write(t.Context(), src.Database, &lines))
	}
	var counters bytes.Buffer
	for i := range 4 {
		fmt.Fprintf(&counters, "infiniband,host=%s,device=sim0,port=1 port_rcv_data=%[2]di,port_xmit_data=%[2]di,port_xmit_discards=%[2]di,symbol_error=%[2]di %d\n",
			eventful, i, now.Add(time.Duration(i-4)*time.Minute).UnixNano())
	}
	require.NoError(t, src.Server.Write(t.Context(), src.Database, &counters))
}

// awaitWritten waits until the database has at least this number of intervals of a
// host, which the caller has counted in Telegraf's file.
func awaitWritten(t *testing.T, src Source, host string, intervals int) {
	t.Helper()
	query := `SELECT count("uptime_ns") AS "n" FROM "rdma_collector" WHERE "host" = '` + host + `'`
	require.Eventually(t, func() bool {
		got, err := src.Query(t.Context(), query)
		require.NoError(t, err)
		if len(got) == 0 {
			return false
		}
		n, _ := got[0].Numbers("n")
		return int(n[0]) >= intervals
	}, patience, 50*time.Millisecond, "%s: %d intervals in the database", host, intervals)
}

func requireRules(t *testing.T, src Source, hosts []liveHost, now time.Time) {
	file, err := Rules(root)
	require.NoError(t, err)
	past := []liveHost{{name: "plugin-silent", fires: []string{"plugin-silent"}}, {name: "link-slow", fires: []string{"link-slow"}},
		{name: "command-slow", fires: []string{"command-slow"}}}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			w, err := NewWatcher(&r, &g)
			require.NoError(t, err)
			for _, back := range evaluationTimes(&r, w) {
				require.NoError(t, w.Evaluate(t.Context(), src, now.Add(-back)))
			}
			require.Equal(t, expectedToFire(append(hosts, past...), &r), hostsIn(w, Firing), r.UID)
		}
	}
}

// evaluationTimes returns the times of a rule's evaluations, as durations before now.
// Most rules are evaluated now and at later times, with the last points as the
// newest, until the condition has held for long enough. The rule of slow wake-ups
// takes long, so it is evaluated in the ten minutes before now: these are written. The same goes for rules that hold for long.
func evaluationTimes(r *grafana.Rule, w *Watcher) []time.Duration {
	switch r.UID {
	case "rdma-plugin-silent": // at a later time all hosts are silent
		return []time.Duration{0}
	case "rdma-wake-slow":
		return []time.Duration{2 * w.Interval(), w.Interval(), 0}
	case "rdma-link-slow", "rdma-command-slow":
		var before []time.Duration
		for at := w.hold; at >= 0; at -= w.Interval() {
			before = append(before, at)
		}
		return before
	}
	var later []time.Duration
	for at := time.Duration(0); at < w.hold+w.Interval(); at += w.Interval() {
		later = append(later, -at)
	}
	return later
}

func hostsIn(w *Watcher, state State) []string {
	var names []string
	for _, labels := range w.In(state) {
		if labels["host"] != eventful {
			names = append(names, labels["host"])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func expectedToFire(hosts []liveHost, r *grafana.Rule) []string {
	var names []string
	for _, h := range hosts {
		if slices.Contains(h.fires, strings.TrimPrefix(r.UID, "rdma-")) {
			names = append(names, h.name)
		}
	}
	slices.Sort(names)
	return names
}

func requireDashboards(t *testing.T, src Source, now time.Time) {
	boards, err := Dashboards(root)
	require.NoError(t, err)
	shown := Range{now.Add(-time.Hour), now}
	for uid, choice := range map[string]Choice{
		"rdma-events-fleet":  {"policy": {influxdb.Own().Raw}},
		"rdma-events-host":   {"policy": {influxdb.Own().Raw}, "host": {eventful}},
		"rdma-events-device": {"policy": {influxdb.Own().Raw}, "host": {eventful}, "device": {"sim0"}},
		"rdma-events-applications": {
			"policy": {influxdb.Own().Raw}, "host": {eventful}, "device": {"sim0"}, "app": {"python3"},
		},
	} {
		d := boards[uid]
		require.NotNil(t, d, uid)
		requests, err := Requests(d, choice, shown)
		require.NoError(t, err)
		for _, q := range requests {
			requireValues(t, src, uid+", "+q.Panel.Title+", "+q.RefID, q.Query)
		}
		for _, query := range Annotations(d, choice, shown) {
			requireValues(t, src, uid+", annotation", query)
		}
		requireVariables(t, src, d, choice)
		t.Logf("%s: %d queries in %d panels have values", uid, len(requests), len(d.Panels))
	}
}

// isUnusedTag reports whether no host of these tests has a tag: they have no labels of places, and one plugin each.
func isUnusedTag(name string) bool {
	return slices.Contains([]string{"site", "rack", "rail", "instance"}, name)
}

// requireValues runs a query and requires that each of its columns has a value, apart from the columns of unused tags.
func requireValues(t *testing.T, src Source, what, query string) {
	t.Helper()
	series, err := src.Query(t.Context(), query)
	require.NoError(t, err, what)
	require.NotEmpty(t, series, "%s: %s", what, query)
	has := map[string]bool{}
	for _, s := range series {
		for _, column := range s.Columns {
			has[column] = has[column] || slices.ContainsFunc(s.Column(column), func(v any) bool { return v != nil })
		}
	}
	for column, some := range has {
		require.True(t, some || isUnusedTag(column), "%s: column %s has no value: %s", what, column, query)
	}
}

// requireVariables fills a dashboard's variables one after the other, as
// Grafana does, and requires that the choice is among the values.
func requireVariables(t *testing.T, src Source, d *grafana.Dashboard, choice Choice) {
	t.Helper()
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		series, err := src.Query(t.Context(), Render(v.Query, d.Templating.List, choice))
		require.NoError(t, err, v.Name)
		if len(series) == 0 && isUnusedTag(v.Name) {
			continue
		}
		require.NotEmpty(t, series, v.Name)
		values := series[0].Column("value")
		if values == nil {
			values = series[0].Column("name")
		}
		require.NotEmpty(t, values, v.Name)
		for _, chosen := range choice[v.Name] {
			require.Contains(t, values, chosen, v.Name)
		}
	}
}
