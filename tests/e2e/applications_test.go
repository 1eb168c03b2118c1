package e2e

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/tests/rig"
)

// TestApplicationsAreReportedByProcessAndUnit has three jobs for two places.
func TestApplicationsAreReportedByProcessAndUnit(t *testing.T) {
	t.Parallel()
	r := rig.Start(t, rig.Config{Plugin: fmt.Sprintf(`[[inputs.rdma_events]]
  backend = "sim"
  [inputs.rdma_events.applications]
    objects = true
    by = ["app", "unit"]
    max_series = 2
  [inputs.rdma_events.sim]
    profile = "dual"
    scenario = %q
`, writeScenario(t, `
[[app]]
name = "python3"
unit = "job_1"
processes = 3
qps = 5
state = "error"
[[app]]
name = "python3"
unit = "pod_2"
srqs = 4
[[app]]
name = "mpirun"
`))})
	points := r.Await("objects", patience, func(points []rig.Point) bool {
		return rig.Last(points, "rdma_app", "app", "other").Int("qps") > 0
	})
	type place struct{ app, unit string }
	got := map[place][5]int64{}
	for _, p := range rig.Select(points, "rdma_app", "device", "sim0") {
		got[place{p.Tags["app"], p.Tags["unit"]}] = [5]int64{p.Int("processes"), p.Int("contexts"), p.Int("srqs"), p.Int("qps"), p.Int("qps_error")}
	}
	kernel := rig.Last(points, "rdma_app", "app", "kernel")
	require.NotContains(t, kernel.Fields, "processes")
	kernels := got[place{"kernel", ""}]
	delete(got, place{"kernel", ""})
	require.EqualValues(t, 2, kernels[3], "a queue pair for each port")
	require.Equal(t, map[place][5]int64{
		{"python3", "job_1"}: {3, 3, 0, 15, 15}, {"python3", "pod_2"}: {1, 1, 4, 8, 0}, {"other", ""}: {1, 1, 0, 8, 0},
	}, got)
}

// TestWithoutEventsNoTracerIsStarted has the tracer program where the plugin would find it.
func TestWithoutEventsNoTracerIsStarted(t *testing.T) {
	t.Parallel()
	programs := rig.Install(t)
	r := rig.Start(t, rig.Config{Programs: programs, Plugin: `[[inputs.rdma_events]]
  backend = "sim"
  [inputs.rdma_events.applications]
    objects = true
    events = false
  [inputs.rdma_events.sim]
    profile = "fleet4"
`})
	awaitOpen(r, 4)
	require.ElementsMatch(t, rig.Executing(t, programs.Worker), r.Workers(), "the plugin has no other children")
	require.Len(t, r.Workers(), 4)
	require.Empty(t, rig.Executing(t, programs.Tracer))
}

// TestAnApplicationsErrorIsReportedWithItsQueuePairAlsoAfterTheTracerWasKilled has a job whose queue pair fails every
// three seconds and that never reads, and a solver that hangs.
func TestAnApplicationsErrorIsReportedWithItsQueuePairAlsoAfterTheTracerWasKilled(t *testing.T) {
	t.Parallel()
	programs := rig.Install(t)
	r := rig.Start(t, rig.Config{Programs: programs, Plugin: fmt.Sprintf(`[[inputs.rdma_events]]
  backend = "sim"
  [inputs.rdma_events.applications]
    events = true
    hang_after = "1s"
    by = ["app", "unit"]
  [inputs.rdma_events.sim]
    scenario = %q
`, writeScenario(t, `
[[app]]
device = "sim0"
name = "python3"
unit = "job_1"
event = "qp_fatal"
event_at = "3s"
event_every = "3s"
number = 284
read_after = "never"
[[app]]
device = "sim0"
name = "solver"
hang_at = "3s"
hang_object = "cq"
hang_for = "10s"
`))})
	points := r.Await("an error, and a hang", patience, func(points []rig.Point) bool {
		return len(rig.Select(points, "rdma_app_event")) > 0 && len(rig.Select(points, "rdma_app_hang")) > 0
	})
	first := rig.Select(points, "rdma_app_event")[0]
	require.Equal(t, map[string]string{"device": "sim0", "app": "python3", "event": "qp_fatal", "object": "qp"}, tagsOf(first, "device", "app", "event", "object"))
	require.Equal(t, "job_1", first.Text("unit"))
	require.EqualValues(t, 284, first.Int("number"))
	require.EqualValues(t, 1, first.Int("total"))
	hang := rig.Select(points, "rdma_app_hang")[0]
	require.Equal(t, map[string]string{"device": "sim0", "app": "solver", "object": "cq"}, tagsOf(hang, "device", "app", "object"))
	require.EqualValues(t, 1, hang.Int("missing"))
	require.Equal(t, "asleep", hang.Text("proof"))

	killed := rig.Executing(t, programs.Tracer)
	require.Len(t, killed, 1)
	require.NoError(t, syscall.Kill(killed[0], syscall.SIGKILL))
	points = r.Await("another tracer, and the hang's end", patience, func(points []rig.Point) bool {
		now := rig.Last(points, "rdma_tracer")
		return now.Int("attached") == 1 && now.Int("gaps") == 1 && rig.Last(points, "rdma_app_hang").Int("threads") == 0
	})
	require.Positive(t, rig.Last(points, "rdma_tracer").Int("blind_ns"))
	require.NotEqual(t, killed, rig.Executing(t, programs.Tracer))
	had := rig.Last(points, "rdma_app_async", "app", "python3").Int("qp_fatal")
	points = r.Await("more errors", patience, func(points []rig.Point) bool {
		return rig.Last(points, "rdma_app_async", "app", "python3").Int("qp_fatal") > had
	})
	all := rig.Select(points, "rdma_app_async", "app", "python3")
	for i, p := range all {
		ended := p.Int("read") + p.Int("discarded") + p.Int("skipped")
		if _, attached := p.Fields["unread"]; attached {
			require.Equal(t, p.Int("queued"), ended+p.Int("unread"), "point %d", i)
		} else {
			require.GreaterOrEqual(t, p.Int("queued"), ended, "point %d, without a tracer", i)
		}
		if i > 0 {
			require.GreaterOrEqual(t, p.Int("qp_fatal"), all[i-1].Int("qp_fatal"), "point %d", i)
		}
	}
	require.EqualValues(t, all[len(all)-1].Int("qp_fatal"), rig.Last(points, "rdma_host").Int("app_errors"))
}

// tagsOf returns some tags of a point.
func tagsOf(p rig.Point, names ...string) map[string]string {
	tags := map[string]string{}
	for _, name := range names {
		tags[name] = p.Tags[name]
	}
	return tags
}
