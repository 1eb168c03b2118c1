package history_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"rdma_events/internal/telemetry/measure"
	"rdma_events/tests/history"
	"rdma_events/tests/rig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func historyStart() time.Time { return time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC) }

// hostPoints returns the points that one host emits in a span of time, at intervals of ten seconds.
func hostPoints(t *testing.T, span time.Duration, of history.Host) []rig.Point {
	t.Helper()
	points, err := rig.Parse(historyLines(t, span, of))
	require.NoError(t, err)
	return points
}

func historyLines(t *testing.T, span time.Duration, of ...history.Host) []byte {
	t.Helper()
	var b bytes.Buffer
	c := history.Config{Start: historyStart(), End: historyStart().Add(span), Interval: 10 * time.Second, Hosts: of}
	require.NoError(t, c.Write(t.Context(), &b))
	return b.Bytes()
}

// pointTime returns the time of a point, counted from the start of the history.
func pointTime(p rig.Point) time.Duration { return time.Unix(0, p.Time).Sub(historyStart()) }

func TestEqualSeedsGiveEqualLines(t *testing.T) {
	mixed := history.Host{Name: "a", Scenario: "mixed", Seed: 7}
	first := historyLines(t, 3*time.Minute, mixed)
	require.Equal(t, string(first), string(historyLines(t, 3*time.Minute, mixed)))
	mixed.Seed = 8
	require.NotEqual(t, string(first), string(historyLines(t, 3*time.Minute, mixed)))
}

// The scenario mixed has three applications, one of which reads its errors late and one hangs.
func TestAHostHasWhatItsApplicationsExperience(t *testing.T) {
	points := hostPoints(t, 3*time.Minute, history.Host{Name: "a", Scenario: "mixed", Applications: true})
	for app, unit := range map[string]string{"python3": "job_4711", "storaged": "storaged.service", "solver": "pod_3f2a"} {
		for _, name := range []string{"rdma_app", "rdma_app_async"} {
			require.NotEmpty(t, rig.Select(points, name, "device", "sim0", "app", app, "unit", unit), "%s of %s", name, app)
		}
	}
	require.NotEmpty(t, rig.Select(points, "rdma_app_event", "app", "python3", "event", "qp_fatal"))
	unread, waits := false, false
	for _, p := range rig.Select(points, "rdma_app_async", "app", "python3") {
		unread = unread || p.Fields["unread_errors"] == int64(4)
	}
	for _, p := range rig.Select(points, "rdma_app_hang", "app", "solver") {
		waits = waits || p.Fields["threads"] == int64(2)
	}
	require.True(t, unread)
	require.True(t, waits)
	for _, p := range rig.Select(points, "rdma_tracer") {
		require.Equal(t, int64(1), p.Fields["attached"])
	}
	require.Empty(t, rig.Select(hostPoints(t, time.Minute, history.Host{Name: "a", Scenario: "mixed"}), "rdma_tracer"))
}

func TestAHealthyHourHasEveryIntervalOfEverySeries(t *testing.T) {
	points := hostPoints(t, time.Hour, history.Host{Name: "a", Profile: "fleet3", Tags: map[string]string{"rack": "r1"}})
	const ticks = 359 // the plugin is a moment late at each, so the last one is after the end
	require.Equal(t, ticks, len(rig.Select(points, "rdma_collector")))
	for _, device := range []string{"sim0", "sim1", "sim2"} {
		ports := rig.Select(points, "rdma_port", "device", device, "host", "a", "rack", "r1")
		require.GreaterOrEqual(t, len(ports), ticks)
		for _, p := range ports {
			require.EqualValues(t, 1, p.Int("up"))
		}
		last := rig.Last(points, "rdma_cq_probe", "device", device, "method", "ud_send")
		require.InDelta(t, 3600, float64(last.Int("rounds")), 12)
		require.Equal(t, last.Int("rounds"), last.Int("successes"))
		require.Equal(t, last.Int("events"), last.Int("acked"))
		require.Greater(t, last.Int("wake_ns_p99"), last.Int("wake_ns_p50"))
	}
	require.Empty(t, rig.Select(points, "rdma_port_change"))
	for _, p := range points {
		require.GreaterOrEqual(t, pointTime(p), time.Duration(0), p.Series())
		require.LessOrEqual(t, pointTime(p), time.Hour, p.Series())
	}
}

func TestADropStandsWhereItHappened(t *testing.T) {
	points := hostPoints(t, 10*time.Minute, history.Host{Name: "a", Timeline: `
[[link]]
at = "4m"
device = "sim1"
down_for = "40ms"
`})
	changes := rig.Select(points, "rdma_port_change", "device", "sim1", "port", "1", "witness", "event")
	require.Len(t, changes, 2)
	require.Equal(t, 4*time.Minute, pointTime(changes[0]))
	require.Equal(t, 4*time.Minute+40*time.Millisecond, pointTime(changes[1]))
	require.EqualValues(t, 40*time.Millisecond, changes[1].Int("lasted_ns"))
	last := rig.Last(points, "rdma_port", "device", "sim1")
	require.EqualValues(t, 1, last.Int("flaps"))
	require.EqualValues(t, 1, last.Int("link_downed"))
	require.EqualValues(t, 0, last.Int("missed_transitions"))
	require.EqualValues(t, 40*time.Millisecond, last.Int("down_ns"))
	require.EqualValues(t, 0, rig.Last(points, "rdma_port", "device", "sim0").Int("flaps"))
}

func TestCommandsThatFailAreStuckUntilOneSucceeds(t *testing.T) {
	points := hostPoints(t, 5*time.Minute, history.Host{Timeline: `
[[command]]
at = "60s"
device = "sim0"
for = "60s"
what = "fails"
`})
	of := func(device, call string) []rig.Point {
		return rig.Select(points, "rdma_command", "device", device, "port", "1", "call", call)
	}
	var began, ended time.Duration
	for _, p := range of("sim0", "hw_counters") {
		switch stuck := p.Int("stuck") == 1; {
		case stuck && began == 0:
			began = pointTime(p)
			require.Equal(t, "ETIMEDOUT", p.Text("status"))
		case !stuck && began > 0 && ended == 0:
			ended = pointTime(p)
			require.Equal(t, "ok", p.Text("status"))
		}
	}
	require.InDelta(t, 80, began.Seconds(), 1, "the third call that fails")
	require.InDelta(t, 120, ended.Seconds(), 1)
	last := rig.Last(points, "rdma_command", "device", "sim0", "call", "hw_counters")
	require.InDelta(t, 29, float64(last.Int("calls")), 1)
	require.EqualValues(t, 6, last.Int("errors"))
	require.Positive(t, last.Int("took_ns_p99"))
	require.EqualValues(t, 0, rig.Last(points, "rdma_command", "device", "sim0", "call", "query_port").Int("errors"))
	require.EqualValues(t, 0, rig.Last(points, "rdma_command", "device", "sim1", "call", "hw_counters").Int("errors"))
}

func TestFirmwareThatRefusesQueriesIsNotAskedEachTime(t *testing.T) {
	points := hostPoints(t, 30*time.Minute, history.Host{Profile: "fleet1", Timeline: "[[command]]\ncall = \"query_port\"\nwhat = \"fails\"\nstatus = \"EIO\"\n"})
	last := rig.Last(points, "rdma_command", "device", "sim0", "call", "query_port")
	require.Positive(t, last.Int("errors"))
	require.Less(t, last.Int("errors"), int64(30*60/5), "of the queries of half an hour")
}

func TestACommandThatHangsIsStuckBeforeItEnds(t *testing.T) {
	points := hostPoints(t, 2*time.Minute, history.Host{Timeline: `
[[command]]
at = "60s"
device = "sim0"
for = "16s"
`})
	for _, p := range rig.Select(points, "rdma_command", "device", "sim0", "call", "hw_counters") {
		if p.Int("stuck") == 1 {
			require.InDelta(t, 65, pointTime(p).Seconds(), 1)
			require.GreaterOrEqual(t, p.Int("busy_ns"), int64(5*time.Second))
			return
		}
	}
	require.Fail(t, "no point is stuck")
}

func TestRoundsGetLostWhileAFaultLasts(t *testing.T) {
	points := hostPoints(t, 5*time.Minute, history.Host{Timeline: `
[[fault]]
at = "60s"
kind = "lost_event"
device = "sim0"
for = "5s"

[[fault]]
at = "120s"
kind = "lost_completion"
device = "sim1"
for = "5s"

[[fault]]
at = "180s"
kind = "slow"
device = "sim1"
factor = 50
for = "60s"
`})
	zero, one := rig.Last(points, "rdma_cq_probe", "device", "sim0"), rig.Last(points, "rdma_cq_probe", "device", "sim1")
	require.EqualValues(t, 5, zero.Int("lost_events"))
	require.EqualValues(t, 5, one.Int("lost_completions"))
	require.Greater(t, one.Int("wake_ns_p99"), 20*zero.Int("wake_ns_p99"))
	require.Empty(t, zero.Tags["host"])
}

func TestAProbeHasTheMethodThatThePluginChooses(t *testing.T) {
	for profile, method := range map[string]string{"efa": "ud_send", "bnxt_re": "ud_send", "mana": "rc_write", "ib8": "rc_write", "siw": "flush"} {
		for _, fault := range []string{"[[link]]\nat = \"60s\"\ndown_for = \"60s\"", "[[fault]]\nkind = \"completion_error\"\nat = \"60s\"\nfor = \"60s\""} {
			methods := map[string]bool{}
			for _, p := range rig.Select(hostPoints(t, 5*time.Minute, history.Host{Profile: profile, Timeline: fault}), "rdma_cq_probe", "device", "sim0") {
				methods[p.Tags["method"]] = true
			}
			require.Equal(t, map[string]bool{method: true}, methods, "%s %s", profile, fault)
		}
	}
}

func TestADeviceThatIsAwayIsNotPresentMeanwhile(t *testing.T) {
	points := hostPoints(t, 5*time.Minute, history.Host{Name: "a", Timeline: `
[[fault]]
at = "61s"
kind = "removed"
device = "sim0"
for = "60s"
`})
	for _, p := range rig.Select(points, "rdma_device", "device", "sim0") {
		away := pointTime(p) >= 61*time.Second && pointTime(p) < 121*time.Second
		require.Equal(t, !away, p.Int("present") == 1, "%v", pointTime(p))
	}
	last := rig.Last(points, "rdma_device", "device", "sim0")
	require.EqualValues(t, 2, last.Int("opens"))
	require.EqualValues(t, 1, last.Int("removals"))
	require.Equal(t, "running", last.Text("worker_state"))
	require.Len(t, rig.Select(points, "rdma_port_change", "device", "sim0", "state_to", "absent"), 1)
}

func TestAWorkerThatDiesIsReplacedAndNothingIsUncounted(t *testing.T) {
	points := hostPoints(t, 3*time.Minute, history.Host{Timeline: `
[[fault]]
at = "60s"
kind = "crash"
device = "sim0"

[[event]]
at = "60s"
type = "gid_change"
device = "sim0"
count = 5
`})
	async := rig.Last(points, "rdma_async", "device", "sim0", "port", "1")
	require.EqualValues(t, 5, async.Int("gid_change"))
	require.EqualValues(t, 5, async.Int("released"))
	require.EqualValues(t, 5, rig.Sum(rig.Select(points, "rdma_async_event", "event", "gid_change"), "count"))
	require.EqualValues(t, 1, rig.Last(points, "rdma_device", "device", "sim0").Int("worker_restarts"))
	require.EqualValues(t, 1, rig.Last(points, "rdma_device", "device", "sim0").Int("crashes"))
}

func TestHangingCallIsReportedWhileItHangs(t *testing.T) {
	points := hostPoints(t, 5*time.Minute, history.Host{Timeline: `
[[fault]]
at = "58s"
kind = "hang_ack"
device = "sim0"
for = "5s"

[[event]]
at = "58s"
type = "sm_change"
device = "sim0"

[[fault]]
at = "120s"
kind = "hang_ack"
device = "sim1"
for = "60s"

[[event]]
at = "120s"
type = "sm_change"
device = "sim1"
`})
	var hung []time.Duration
	for _, p := range rig.Select(points, "rdma_async", "device", "sim0", "port", "1") {
		if p.Int("unacked") == 1 {
			hung = append(hung, pointTime(p).Round(time.Second))
		}
	}
	require.Equal(t, []time.Duration{60 * time.Second}, hung)
	require.EqualValues(t, 0, rig.Last(points, "rdma_device", "device", "sim0").Int("worker_restarts"))

	stuck := rig.Last(points, "rdma_device", "device", "sim1")
	require.EqualValues(t, 1, stuck.Int("worker_restarts"), "killed after some ten seconds")
	require.EqualValues(t, 1, rig.Last(points, "rdma_async", "device", "sim1", "port", "1").Int("released"))
}

func TestADeviceThatCannotBeOpenedIsTriedAgain(t *testing.T) {
	points := hostPoints(t, 5*time.Minute, history.Host{Timeline: `
[[fault]]
at = "0s"
kind = "open_error"
error = "no_permission"
device = "sim0"
for = "100s"
`})
	var refused int
	for _, p := range rig.Select(points, "rdma_device", "device", "sim0") {
		if p.Text("reason") == "no_permission" && p.Text("worker_state") == "backing_off" {
			refused++
			require.EqualValues(t, 1, p.Int("present"))
			require.EqualValues(t, 0, p.Int("open"))
		}
	}
	require.Greater(t, refused, 8, "most of a hundred seconds, every ten")
	require.Equal(t, "ok", rig.Last(points, "rdma_device", "device", "sim0").Text("reason"))
}

func TestEventsAndCountersOfAMixedHourAgree(t *testing.T) {
	points := hostPoints(t, time.Hour, history.Host{Name: "a", Scenario: "mixed", Seed: 3})
	for _, device := range []string{"sim0", "sim1"} {
		own, port := rig.Last(points, "rdma_async", "device", device, "port", ""), rig.Last(points, "rdma_async", "device", device, "port", "1")
		emitted := rig.Sum(rig.Select(points, "rdma_async_event", "device", device), "count")
		require.Equal(t, own.Int("read")+port.Int("read"), emitted)
		for _, p := range []rig.Point{own, port} {
			require.Equal(t, p.Int("read"), p.Int("acked")+p.Int("unacked")+p.Int("released"))
		}
	}
	last := rig.Last(points, "rdma_device", "device", "sim0")
	require.EqualValues(t, 60, last.Int("removals"))
	require.EqualValues(t, 1+60+59, last.Int("opens"), "after each removal and each crash but the last, which is too late")
}

func TestEveryNameStandsInTheTableOfMetrics(t *testing.T) {
	table := map[string]measure.Metric{}
	for _, m := range measure.All() {
		table[m.Name] = m
	}
	seen := map[string]bool{}
	for _, p := range hostPoints(t, 2*time.Minute, history.Host{Scenario: "mixed"}) {
		seen[p.Measurement] = true
		m, ok := table[p.Measurement]
		require.True(t, ok, p.Measurement)
		for name := range p.Fields {
			_, ok := m.Field(name)
			require.True(t, ok, "%s %s", p.Measurement, name)
		}
	}
	require.Len(t, seen, len(table)-10,
		"all but the histogram and those of applications and the fabric, which are not configured, and rdma_attr_change, which the simulator lacks")
}

func TestBadInputEndsTheHistory(t *testing.T) {
	c := history.Config{Start: historyStart(), End: historyStart().Add(time.Minute), Interval: time.Second}
	for text, of := range map[string]history.Host{
		"unknown profile": {Profile: "roce9"},
		"line 2":          {Timeline: "[[link]]\nwhen = 1\n"},
		"renamed":         {Timeline: "[[fault]]\nat=\"5s\"\nkind=\"renamed\"\ndevice=\"sim0\"\nto=\"mlx5_9\"\n"},
	} {
		c.Hosts = []history.Host{of}
		require.ErrorContains(t, c.Write(t.Context(), &bytes.Buffer{}), text)
	}
	c.Hosts = []history.Host{{}}
	full := errors.New("disk full")
	require.ErrorIs(t, c.Write(t.Context(), failing{full}), full)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, c.Write(ctx, &bytes.Buffer{}), context.Canceled)
	c.End = c.Start
	require.ErrorContains(t, c.Write(t.Context(), &bytes.Buffer{}), "start before the end")
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// writeScenario writes a scenario to a file and returns its path.
func writeScenario(t *testing.T, scenario string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "scenario.toml")
	require.NoError(t, os.WriteFile(path, []byte(scenario), 0o600))
	return path
}

func TestAFleetHasItsTroublesAndIsMostlyHealthy(t *testing.T) {
	f := history.Fleet{Hosts: 150, Devices: 2, Span: 10 * time.Minute, Seed: 1}
	c := history.Config{Start: historyStart(), End: historyStart().Add(f.Span), Interval: time.Minute, Hosts: f.All(), Exact: true}
	var b bytes.Buffer
	require.NoError(t, c.Write(t.Context(), &b))
	points, err := rig.Parse(b.Bytes())
	require.NoError(t, err)
	flapping, down := map[string]bool{}, map[string]bool{}
	for _, p := range rig.Select(points, "rdma_collector", "host", "node0001") {
		require.Zero(t, pointTime(p)%time.Minute, "exactly at the interval's end")
	}
	for _, p := range rig.Select(points, "rdma_port") {
		if p.Int("flaps") > 0 {
			flapping[p.Tags["host"]] = true
		}
		if p.Int("up") == 0 {
			down[p.Tags["host"]] = true
		}
	}
	require.NotEmpty(t, flapping)
	require.NotEmpty(t, down)
	require.Less(t, len(flapping)+len(down), 30)

	few := f
	few.Hosts = 2
	require.Equal(t, few.All(), f.All()[:2])
}

func TestACauseComesWithTheFactsThatShowIt(t *testing.T) {
	for _, row := range []struct {
		profile, timeline string
		trigger, cause    string
		port, facts       string
	}{
		{"roce2", `[[link]]
why = "admin"
down_for = "5s"`, "port_err", "admin_down", "1", "admin_up=0"},
		{"roce2", `[[link]]
down_for = "5s"`, "port_err", "no_carrier", "1", "admin_up=1 carrier=0"},
		{"roce2", `[[link]]
why = "no_cable"
down_for = "5s"`, "port_err", "no_cable", "1", "admin_up=1 carrier=0 ext_state=no_cable"},
		{"roce2", `[[gid]]
to = 6
away = "400ms"`, "gid_change", "address_change", "1", "admin_up=1 carrier=1"},
		{"ib8", `[[event]]
type = "sm_change"
sm_lid = 7`, "sm_change", "sm_change", "1", ""},
		{"roce2", `[[event]]
type = "device_fatal"`, "device_fatal", "device_fatal", "", "admin_up=1 carrier=1"},
		{"roce2", `[[fault]]
kind = "removed"
for = "5s"`, "removed", "driver_removed", "", ""},
		{"roce2", `[[command]]
for = "9s"`, "command", "command_stuck", "1", ""},
		{"roce2", `[[fault]]
kind = "lost_event"
for = "1s"`, "lost_event", "", "1", "admin_up=1 carrier=1"},
	} {
		t.Run(row.trigger+" "+row.cause, func(t *testing.T) {
			points := hostPoints(t, 3*time.Minute, history.Host{Profile: row.profile, Timeline: row.timeline + "\nat = \"100s\"\ndevice = \"sim0\"\n"})
			evidence := rig.Select(points, "rdma_evidence", "trigger", row.trigger)
			require.NotEmpty(t, evidence, "%v", rig.Select(points, "rdma_evidence"))
			p := evidence[0]
			require.Equal(t, "sim0", p.Tags["device"])
			require.Equal(t, row.port, p.Tags["port"])
			require.Equal(t, row.cause, p.Text("cause"))
			require.Equal(t, row.facts, netDevFacts(p))
		})
	}
}

// netDevFacts returns the fields about the network device in a point of rdma_evidence, as text.
func netDevFacts(p rig.Point) string {
	var words []string
	for _, name := range []string{"admin_up", "carrier", "ext_state"} {
		if v, ok := p.Fields[name]; ok {
			words = append(words, fmt.Sprintf("%s=%v", name, v))
		}
	}
	return strings.Join(words, " ")
}

func TestOfTheCountersOfAPortThoseThatMovedAreNamed(t *testing.T) {
	points := hostPoints(t, 3*time.Minute, history.Host{Profile: "roce2", Timeline: `
[[counter]]
at = "90s"
every = "1s"
times = 5
device = "sim0"
source = "counters"
name = "symbol_error"
by = 17

[[link]]
at = "100s"
device = "sim0"
down_for = "5s"
`})
	p := rig.Select(points, "rdma_evidence", "device", "sim0", "trigger", "port_err")[0]
	require.Contains(t, p.Text("top"), "symbol_error +85")
	require.InDelta(t, 40, time.Duration(p.Int("base_age_ns")).Seconds(), 0.1, "a base is read every minute")
	require.Equal(t, 100*time.Second, pointTime(p))
	require.InDelta(t, 10, time.Duration(p.Int("age_ns")).Milliseconds(), 1)
}

func TestWhatIsNotAskedOfASilentDeviceIsLeftOut(t *testing.T) {
	points := hostPoints(t, 3*time.Minute, history.Host{Profile: "roce2", Timeline: `
[[command]]
at = "95s"
device = "sim0"
for = "10s"
what = "fails"

[[link]]
at = "100s"
device = "sim0"
why = "no_cable"
down_for = "5s"
`})
	p := rig.Select(points, "rdma_evidence", "device", "sim0", "trigger", "port_err")[0]
	require.Equal(t, "no_carrier", p.Text("cause"), "the network device is known without a command")
	require.Contains(t, p.Text("left_out"), "ext_state: the device answered a command with: ")
	require.NotContains(t, p.Fields, "changed")
}
