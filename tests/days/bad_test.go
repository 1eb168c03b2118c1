package days

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

// fault is something that breaks on a host and is mended later.
type fault struct {
	problem string        // that is reported, as in "critical port-down mlx5_0:1"
	within  time.Duration // for which it may be seen before it is reported
	begin   func(h *host)
	mend    func(h *host)
	lingers bool // it is reported for half an hour after it is mended
}

// lastingFaults returns faults that last until they are mended. The expected problem of each fault, and the time after which it must be
// reported, were written down before the day was first played.
func lastingFaults() []fault {
	const hold = time.Minute // of most alerts
	return []fault{
		{
			problem: "critical port-down mlx5_0:1", within: hold,
			begin: func(h *host) { h.state("mlx5_0", 1, verbs.PortDown) },
			mend:  func(h *host) { h.state("mlx5_0", 1, verbs.PortActive) },
		},
		{
			problem: "critical port-down mlx5_1:1", within: hold, // no subnet manager
			begin: func(h *host) { h.state("mlx5_1", 1, verbs.PortInit) },
			mend:  func(h *host) { h.state("mlx5_1", 1, verbs.PortActive) },
		},
		{
			problem: "critical device-missing mlx5_2", within: hold,
			begin: func(h *host) { h.unplug("mlx5_2") },
			mend:  func(h *host) { h.replug("mlx5_2", h.unplugged["mlx5_2"]) },
		},
		{
			problem: "critical node-missing mlx5_3", within: hold,
			begin: func(h *host) { h.nics["mlx5_3"].found.NodeMissing = true; h.discover() },
			mend:  func(h *host) { h.nics["mlx5_3"].found.NodeMissing = false; h.discover() },
		},
		{
			problem: "warning link-slow mlx5_4:1", within: 5 * time.Minute,
			begin: func(h *host) { h.nics["mlx5_4"].ports[0].RateGbps = 100 },
			mend:  func(h *host) { h.nics["mlx5_4"].ports[0].RateGbps = 400 },
		},
		{
			problem: "warning bond-leg-down mlx5_0:2", within: hold,
			begin: func(h *host) { h.legs = [2]int{2, 1} },
			mend:  func(h *host) { h.legs = [2]int{2, 2} },
		},
		{
			problem: "warning pcie-degraded mlx5_1", within: 15 * time.Minute, // the link is read every ten minutes
			begin: func(h *host) {
				h.nics["mlx5_1"].link = verbs.PCILink{SpeedGTs: 32, Width: 8, BestSpeedGTs: 32, BestWidth: 16}
			},
			mend: func(h *host) {
				h.nics["mlx5_1"].link = verbs.PCILink{SpeedGTs: 32, Width: 16, BestSpeedGTs: 32, BestWidth: 16}
			},
		},
		{
			problem: "critical command-stuck mlx5_4:2", within: time.Minute, // half a minute after three commands without an answer
			begin: func(h *host) { h.nics["mlx5_4"].silent = true },
			mend:  func(h *host) { h.nics["mlx5_4"].silent = false },
		},
		{
			problem: "warning worker-down mlx5_5", within: 2 * time.Minute,
			begin: func(h *host) { h.refuse("mlx5_5", status.ReasonNoPermission) },
			mend:  func(h *host) { h.refuse("mlx5_5", "") },
		},
		{
			problem: "warning unacked-events mlx5_1:2", within: 3 * time.Minute,
			begin: func(h *host) { h.nics["mlx5_1"].unacked = true },
			mend:  func(h *host) { h.nics["mlx5_1"].unacked = false },
		},
		{
			problem: "warning app-errors mlx5_0", within: errorInterval,
			begin:   func(h *host) { h.other.failing = true },
			mend:    func(h *host) { h.other.failing = false },
			lingers: true,
		},
		{
			problem: "warning app-errors-unread mlx5_1", within: 2 * time.Minute,
			begin: func(h *host) { h.other.unread = true },
			mend:  func(h *host) { h.other.unread = false },
		},
		{
			problem: "warning app-destroy-hangs mlx5_0", within: hold,
			begin: func(h *host) { h.other.hanging, h.other.hangs = true, h.wall() },
			mend:  func(h *host) { h.other.hanging = false },
		},
		{
			problem: "critical fabric-own-link mlx5_4:2", within: hold,
			begin: func(h *host) { h.other.ownLink, h.other.bad = true, h.wall() },
			mend:  func(h *host) { h.other.ownLink = false },
		},
		{
			problem: "warning recorder-failing", within: hold,
			begin:   func(h *host) { h.other.diskFails = true },
			mend:    func(h *host) { h.other.diskFails = false },
			lingers: true,
		},
	}
}

// A fault of each kind that lasts, at the same time: each is reported in time and stays reported for three days, across two restarts of
// the plugin, until it is mended.
func TestFaultsStayReportedUntilMended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { playBadDays(t, settledHost(t), func(time.Time) {}) })
}

// playBadDays has health judge three days. It calls begins when the faults begin and before each restart, and when they are mended.
func playBadDays(t *testing.T, h *host, begins func(at time.Time)) {
	var all, lingering []string
	begins(h.wall())
	for _, f := range lastingFaults() {
		f.begin(h)
		all = append(all, f.problem)
		if f.lingers {
			lingering = append(lingering, f.problem)
		}
	}
	slices.Sort(all)
	h.requireReported(all)
	h.requireLasting(all, 25*time.Hour)
	for range 2 {
		begins(h.wall())
		h.restart(2 * h.every) // so that the steps still meet the intervals
		h.requireReported(all)
		h.requireLasting(all, 24*time.Hour)
	}
	begins(h.wall())
	for _, f := range lastingFaults() {
		f.mend(h)
	}
	h.passes(2 * time.Minute)
	require.Equal(t, lingering, h.problems())
	h.passes(30 * time.Minute)
	require.Empty(t, h.problems())
}

// requireReported requires that each fault is reported within its time and two intervals, and nothing else.
func (h *host) requireReported(all []string) {
	reported := map[string]time.Duration{}
	for after := h.every; after <= 17*time.Minute; after += h.every {
		h.passes(h.every)
		for _, p := range h.problems() {
			require.Contains(h.t, all, p)
			if _, ok := reported[p]; !ok {
				reported[p] = after
			}
		}
	}
	for _, f := range lastingFaults() {
		require.Contains(h.t, reported, f.problem, "a fault that is missed")
		require.LessOrEqual(h.t, reported[f.problem], f.within+2*h.every, f.problem)
		h.t.Logf("%s is reported after %v", f.problem, reported[f.problem])
	}
}

// requireLasting requires that the problems are there in each interval of a time, and no others.
func (h *host) requireLasting(all []string, d time.Duration) {
	h.step = h.every / 2
	defer func() { h.step = time.Second }()
	for range d / h.every {
		h.passes(h.every)
		require.Equal(h.t, all, h.problems())
	}
}

// What happened, and does not last, is a problem for as long as its alert looks back.
func TestFlapsOfADayAreReportedUntilTheyAreOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := settledHost(t)
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
				h := settledHost(t)
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
