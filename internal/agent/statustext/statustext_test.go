package statustext

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/agent/alerts"
	"rdma_events/internal/agent/health"
	"rdma_events/internal/agent/health/healthtest"
	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

const day = 24 * time.Hour

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// observeFor observes h every 10 s for a duration, and returns the last status.
func observeFor(k *health.Keeper, h *healthtest.Host, begin time.Time, lasting time.Duration) *health.Status {
	var s *health.Status
	for at := time.Duration(0); at <= lasting; at += 10 * time.Second {
		s = k.Observe(h.Points(begin.Add(at)), begin.Add(at))
	}
	return s
}

// screenText returns the screen of a host with additional points, right after the start of its plugin.
func screenText(t *testing.T, h *healthtest.Host, more ...measure.Point) string {
	t.Helper()
	s := health.NewKeeper("v1", "gpu-17").Observe(append(h.Points(noon), more...), noon)
	var b strings.Builder
	require.NoError(t, WriteScreen(&b, s, "gpu-17", noon))
	return b.String()
}

func TestTextOfAFileCannotControlATerminal(t *testing.T) {
	s := &health.Status{Devices: []health.Device{{Device: "a\x1b[2J"}}, Problems: []health.Problem{{ID: "x", Device: "b\n", Text: "c\x07", Since: noon}}}
	var b strings.Builder
	require.NoError(t, WriteScreen(&b, s, "gpu\x1b", noon))
	require.NotContains(t, b.String(), "\x1b")
	require.NotContains(t, b.String(), "\x07")
	require.NotContains(t, SummaryLine(s, noon), "\n")
}

func TestAScreenHasDevicesPortsAndProblems(t *testing.T) {
	k, h := health.NewKeeper("v1", "gpu-17"), healthtest.Healthy()
	observeFor(k, h, noon, time.Minute)
	h.Port.Attr.Phys = 2
	h.Port.State, h.Port.HasStateAge = verbs.PortDown, true
	h.Port.Flaps = 1
	h.Probe.Counts = ledger.ProbeCounts{LostCompletions: 4}
	h.Probe.OK, h.Probe.WakeP.P99 = false, 12_340
	h.Command.Stuck, h.Command.Errors, h.Command.Status = true, 3, "ETIMEDOUT"
	observeFor(k, h, noon.Add(2*time.Minute), 0)
	h.Port.StateAgeNS = int64(90 * time.Second)
	s := observeFor(k, h, noon.Add(210*time.Second), 0)
	var b strings.Builder
	require.NoError(t, WriteScreen(&b, s, "gpu-17", noon))
	require.Equal(t, `gpu-17
mlx5_0: mlx5_core, watched
    port 1: down since 12:02, polling, 400 Gbit/s (4x), infiniband, 1 flap, the last at 12:02
        vector 0, rc_write: the last round failed, wake-up p99 12.3 us, 4 lost completions
        hw_counters: the firmware does not answer, the last one ended in ETIMEDOUT, 3 errors
critical  mlx5_0:1 port-down: the port is down, since 12:02
critical  mlx5_0:1 lost-completions: vector 0, rc_write: 4 work requests in all never completed, since 12:02
critical  mlx5_0:1 command-stuck: the firmware does not answer hw_counters, since 12:02
`, b.String())
	require.Equal(t, alerts.Critical, s.Worst())
	require.Equal(t, "mlx5_0:1 port-down since 12:02; mlx5_0:1 lost-completions since 12:02; 1 more", SummaryLine(s, noon))
	require.Equal(t, "mlx5_0:1 port-down since 2026-11-23 12:02; 2 more", SummaryLine(s, noon.Add(day)))
}

func TestPortShowsItsExpectedRateAndManagementRole(t *testing.T) {
	rates := func(now, best float64) func(p *measure.Port) {
		return func(p *measure.Port) { p.Attr.RateGbps, p.RateBestGbps = now, best }
	}
	for name, c := range map[string]struct {
		change func(p *measure.Port)
		want   string
	}{
		"as it should be":        {func(*measure.Port) {}, "active, 400 Gbit/s (4x), infiniband"},
		"slower than the others": {rates(100, 100), "active, 100 Gbit/s (4x), 400 Gbit/s expected, infiniband"},
		"slower than it was":     {rates(100, 400), "active, 100 Gbit/s (4x), 400 Gbit/s expected, infiniband"},
		"slower than both":       {rates(100, 200), "active, 100 Gbit/s (4x), best 200 Gbit/s, 400 Gbit/s expected, infiniband"},
		"nothing is known of it": {func(p *measure.Port) { p.RateExpectedGbps = 0 }, "active, 400 Gbit/s (4x), infiniband"},
		"for management":         {func(p *measure.Port) { p.Role = verbs.RoleManagement }, "active, 400 Gbit/s (4x), infiniband, role management"},
		"for computing":          {func(p *measure.Port) { p.Role = verbs.RoleCompute }, "active, 400 Gbit/s (4x), infiniband"},
		"down, with the rate of a link that is down": {func(p *measure.Port) {
			rates(10, 10)(p)
			p.State = verbs.PortDown
		}, "down, 10 Gbit/s (4x), infiniband"},
	} {
		t.Run(name, func(t *testing.T) {
			h := healthtest.Healthy()
			c.change(&h.Port)
			s := health.NewKeeper("v1", "gpu-17").Observe(h.Points(noon), noon)
			got := s.Devices[0].Ports[0]
			require.Equal(t, h.Port.RateExpectedGbps, got.RateExpectedGbps)
			require.Equal(t, h.Port.Role, got.Role)
			var b strings.Builder
			require.NoError(t, WriteScreen(&b, s, "gpu-17", noon))
			_, rest, _ := strings.Cut(b.String(), "    port 1: ")
			line, _, _ := strings.Cut(rest, "\n")
			require.Equal(t, c.want, strings.TrimSuffix(line, ", should be active"))
		})
	}
}

func TestALineHas80CharactersAtMost(t *testing.T) {
	s := &health.Status{}
	for range 12 {
		s.Problems = append(s.Problems, health.Problem{ID: "ports-down-together", Device: strings.Repeat("d", 63), Port: 255, Since: noon})
		require.LessOrEqual(t, len(SummaryLine(s, noon)), 80)
	}
}

func TestProblemsOfSeveralApplicationsDifferInALine(t *testing.T) {
	k := health.NewKeeper("v1", "gpu-17")
	hang := func(app string, object verbs.Scope, number uint32) measure.Point {
		return &measure.AppHang{
			Device: "mlx5_0", App: app, Object: object, Number: number, Threads: 1, Age: int64(time.Minute), PID: 4711, Proof: trace.ProofAsleep, At: noon,
		}
	}
	h := healthtest.Healthy()
	for _, tt := range []struct {
		hangs []measure.Point
		want  string
	}{
		{
			[]measure.Point{hang("a", verbs.ScopeQP, 284), hang("b", verbs.ScopeCQ, 0)},
			"mlx5_0 app-destroy-hangs a qp since 11:59; 1 more",
		},
		{
			[]measure.Point{hang("b\x07", verbs.ScopeQP, 284)},
			"mlx5_0 app-destroy-hangs b qp since 11:59",
		},
	} {
		s := k.Observe(append(h.Points(noon), tt.hangs...), noon)
		require.Equal(t, tt.want, SummaryLine(s, noon))
		seen := map[string]bool{}
		for _, p := range s.Problems {
			require.False(t, seen[shortProblem(&p, noon)], shortProblem(&p, noon))
			seen[shortProblem(&p, noon)] = true
		}
		require.Len(t, seen, len(tt.hangs))
	}
}

func TestALineOfOneLookNamesEachProblem(t *testing.T) {
	h := healthtest.Healthy()
	h.Port.State = verbs.PortDown
	h.Device.Open, h.Device.Reason, h.Device.Worker.State = false, status.ReasonNoPermission, status.StateBackingOff
	s := health.JudgeOnce("v1", "gpu-17", h.Points(noon), noon)
	require.Equal(t, "mlx5_0:1 port-down since 12:00; mlx5_0 worker-down no_permission", SummaryLine(s, noon))
}

func TestFunctionsThatAreNotWatchedTakeALine(t *testing.T) {
	h := healthtest.Healthy()
	h.Collector.FunctionsSkipped = 2
	require.Contains(t, screenText(t, h), "\n2 virtual or scalable functions left out; virtual_functions = true watches all\nno problems\n")
}

func TestDeviceInAnotherNamespaceIsShownWithItsTime(t *testing.T) {
	h := healthtest.Healthy()
	h.Device.Open, h.Device.Reason, h.Port.Known = false, status.ReasonOtherNetns, false
	h.Device.InOtherNetns, h.Device.OtherNetnsNS, h.Device.At = true, int64(90*time.Minute), noon
	text := screenText(t, h)
	require.Contains(t, text, "mlx5_0: mlx5_core, other_netns since 10:30\n")
	require.Contains(t, text, "no problems\n")
}

func TestOnlyCommandsThatAreStuckTakeALine(t *testing.T) {
	h := healthtest.Healthy()
	h.Command.TookP.P99 = 45_000
	require.NotContains(t, screenText(t, h), "hw_counters", "what is well takes no line")
	h.Command.Stuck, h.Command.BusyNS = true, 6_100_000_000
	require.Contains(t, screenText(t, h), "\n        hw_counters: the firmware does not answer for 6.1 s\n")
}

func TestAPortShowsHowManyOfItsPairsHaveMet(t *testing.T) {
	p := &measure.FabricPort{Device: "mlx5_0", Port: 1, Verdict: "ok", At: noon}
	p.Pairs, p.PairsMet = 8, 8
	require.Contains(t, screenText(t, healthtest.Healthy(), p), "infiniband, 8 of 8 pairs met\n")
	p.PairsMet, p.PairsBad, p.PairsBusy, p.PairsDown = 7, 2, 1, 3
	require.Contains(t, screenText(t, healthtest.Healthy(), p), "infiniband, 7 of 8 pairs met, 2 bad, 1 busy, 3 down\n")
	for _, other := range []*measure.FabricPort{{Device: "mlx5_0", Port: 2, At: noon}, {Device: "mlx5_1", Port: 1, At: noon}} {
		require.NotContains(t, screenText(t, healthtest.Healthy(), other), "pairs", "it is not of a port that is shown")
	}
}
