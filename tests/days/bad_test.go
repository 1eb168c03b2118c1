package days

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/verbs"
)

// fault is something that breaks on a host and is mended later.
type fault struct {
	problem string // that health reports, as in "critical port-down mlx5_0:1"
	within  time.Duration
	begin   func(h *host)
	mend    func(h *host)
}

// faults are those that last until they are mended. What must be reported, and after which time, was written before the day was played.
func faults() []fault {
	const hold = time.Minute + 2*interval // of most alerts, and two intervals to see what it is about
	return []fault{
		{
			"critical port-down mlx5_0:1", hold,
			func(h *host) { h.state("mlx5_0", 1, verbs.PortDown) },
			func(h *host) { h.state("mlx5_0", 1, verbs.PortActive) },
		},
		{
			"critical port-down mlx5_1:1", hold, // no subnet manager
			func(h *host) { h.state("mlx5_1", 1, verbs.PortInit) },
			func(h *host) { h.state("mlx5_1", 1, verbs.PortActive) },
		},
		{
			"critical device-missing mlx5_2", hold,
			func(h *host) { h.unplug("mlx5_2") },
			func(h *host) { h.replug("mlx5_2", h.unplugged["mlx5_2"]) },
		},
		{
			"critical node-missing mlx5_3", hold,
			func(h *host) { h.nics["mlx5_3"].found.NodeMissing = true; h.discover() },
			func(h *host) { h.nics["mlx5_3"].found.NodeMissing = false; h.discover() },
		},
		{
			"warning link-slow mlx5_4:1", 5*time.Minute + 2*interval,
			func(h *host) { h.nics["mlx5_4"].ports[0].RateGbps = 100 },
			func(h *host) { h.nics["mlx5_4"].ports[0].RateGbps = 400 },
		},
		{
			"warning bond-leg-down mlx5_0:2", hold,
			func(h *host) { h.legs = [2]int{2, 1} },
			func(h *host) { h.legs = [2]int{2, 2} },
		},
		{
			"warning pcie-degraded mlx5_1", 15*time.Minute + 2*interval, // the link is read every ten minutes
			func(h *host) {
				h.nics["mlx5_1"].link = verbs.PCILink{SpeedGTs: 32, Width: 8, BestSpeedGTs: 32, BestWidth: 16}
			},
			func(h *host) {
				h.nics["mlx5_1"].link = verbs.PCILink{SpeedGTs: 32, Width: 16, BestSpeedGTs: 32, BestWidth: 16}
			},
		},
	}
}

// A fault of each kind that lasts, at the same time: each is reported in time and stays reported for three days, across two restarts of
// the plugin, until it is mended.
func TestFaultsStayReportedUntilMended(t *testing.T) { synctest.Test(t, playBadDays) }

func playBadDays(t *testing.T) {
	h := ordinary(t)
	var all []string
	for _, f := range faults() {
		f.begin(h)
		all = append(all, f.problem)
	}
	slices.Sort(all)
	h.requireReported(all)
	h.requireLasting(all, 25*time.Hour)
	for range 2 {
		h.restart(20 * time.Second)
		h.requireReported(all)
		h.requireLasting(all, 24*time.Hour)
	}
	for _, f := range faults() {
		f.mend(h)
	}
	h.passes(2 * time.Minute)
	require.Empty(t, h.problems())
}

// requireReported requires that each fault is reported within its time, and nothing else.
func (h *host) requireReported(all []string) {
	reported := map[string]time.Duration{}
	for after := interval; after <= 16*time.Minute; after += interval {
		h.passes(interval)
		for _, p := range h.problems() {
			require.Contains(h.t, all, p)
			if _, ok := reported[p]; !ok {
				reported[p] = after
			}
		}
	}
	for _, f := range faults() {
		require.Contains(h.t, reported, f.problem, "a fault that is missed")
		require.LessOrEqual(h.t, reported[f.problem], f.within, f.problem)
		h.t.Logf("%s is reported after %v", f.problem, reported[f.problem])
	}
}

// requireLasting requires that the problems are there in each interval of a time, and no others.
func (h *host) requireLasting(all []string, d time.Duration) {
	h.step = interval / 2
	defer func() { h.step = time.Second }()
	for range d / interval {
		h.passes(interval)
		require.Equal(h.t, all, h.problems())
	}
}

// What happened, and does not last, is a problem for as long as its alert looks back.
func TestFlapsOfADayAreReportedUntilTheyAreOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := ordinary(t)
		flap := func() {
			h.state("mlx5_0", 1, verbs.PortDown)
			h.passes(20 * time.Second)
			h.state("mlx5_0", 1, verbs.PortActive)
		}
		for range 5 {
			flap()
			h.passes(time.Hour)
			require.Empty(t, h.problems(), "five in a day")
		}
		flap()
		h.passes(interval)
		require.Equal(t, []string{"warning port-flapping mlx5_0:1"}, h.problems())
		h.step = interval / 2
		h.passes(18 * time.Hour)
		require.Equal(t, []string{"warning port-flapping mlx5_0:1"}, h.problems(), "a day after the first one is not over")
		h.passes(2 * time.Hour)
		require.Empty(t, h.problems(), "the first one was more than a day ago")
	})
}

func TestCountersAreLookedAtForTheirTimeAndNoLonger(t *testing.T) {
	for _, row := range []struct {
		problem string
		lasts   time.Duration
		happens func(h *host)
	}{
		{"critical lost-completions mlx5_0:1", 15 * time.Minute, func(h *host) { h.nics["mlx5_0"].lost = 3 }},
		{"warning lost-events mlx5_0:1", 15 * time.Minute, func(h *host) { h.nics["mlx5_0"].unheard = 3 }},
		{"critical device-fatal mlx5_0", 30 * time.Minute, func(h *host) { h.event("mlx5_0", 0, verbs.EventDeviceFatal) }},
		{"warning port-flapping mlx5_0:1", 30 * time.Minute, func(h *host) {
			for range 3 {
				h.state("mlx5_0", 1, verbs.PortDown)
				h.passes(10 * time.Second)
				h.state("mlx5_0", 1, verbs.PortActive)
				h.passes(10 * time.Second)
			}
		}},
	} {
		t.Run(row.problem, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := ordinary(t)
				row.happens(h)
				h.passes(time.Minute)
				require.Contains(t, h.problems(), row.problem)
				h.passes(row.lasts - 2*time.Minute)
				require.Contains(t, h.problems(), row.problem, "until the end of its time")
				h.passes(3 * time.Minute)
				require.Empty(t, h.problems())
			})
		})
	}
}
