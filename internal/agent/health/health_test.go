package health

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/agent/alerts"
	"rdma_events/internal/agent/health/healthtest"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/aggregate"
	"rdma_events/internal/telemetry/measure"
)

const (
	quarter  = 15 * time.Minute
	halfHour = 30 * time.Minute
	day      = 24 * time.Hour
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// observeFor observes h every 10 s for a duration, and returns the last status.
func observeFor(k *Keeper, h *healthtest.Host, begin time.Time, lasting time.Duration) *Status {
	var s *Status
	for at := time.Duration(0); at <= lasting; at += 10 * time.Second {
		s = k.Observe(h.Points(begin.Add(at)), begin.Add(at))
	}
	return s
}

func problemIDs(s *Status) string {
	var all []string
	for _, p := range s.Problems {
		all = append(all, p.ID)
	}
	return strings.Join(all, " ")
}

func TestAStateIsAProblemOnceItHasLasted(t *testing.T) {
	for _, tt := range []struct {
		id    string
		hold  time.Duration
		fault func(*healthtest.Host)
	}{
		{"port-down", time.Minute, func(h *healthtest.Host) { h.Port.State = verbs.PortDown }},
		{"link-slow", 5 * time.Minute, func(h *healthtest.Host) { h.Port.Attr.RateGbps = 200 }},
		{"device-missing", time.Minute, func(h *healthtest.Host) {
			h.Device.Present, h.Device.Reason, h.Port.Known = false, status.ReasonRemoved, false
		}},
		{"unacked-events", 3 * time.Minute, func(h *healthtest.Host) { h.Async.Unacked = 1 }},
		{"command-stuck", 30 * time.Second, func(h *healthtest.Host) { h.Command.Stuck, h.Command.BusyNS = true, 6e9 }},
		{"command-slow", 10 * time.Minute, func(h *healthtest.Host) { h.Command.TookP = aggregate.Percentiles{Count: 1, P99: 1e9 + 1} }},
		{"app-errors-unread", 2 * time.Minute, func(h *healthtest.Host) { h.App.Unread, h.App.UnreadErrors = 2, 1 }},
		{"app-destroy-hangs", 0, func(h *healthtest.Host) { h.Hang.Threads = 1 }},
		{"tracer-blind", 10 * time.Minute, func(h *healthtest.Host) { h.Tracer.Attached = false }},
		{"worker-down", 2 * time.Minute, func(h *healthtest.Host) { h.Device.Worker.State = status.StateBackingOff }},
		{"worker-down", 2 * time.Minute, func(h *healthtest.Host) { h.Device.Worker.State = status.StateStuck }},
	} {
		t.Run(tt.id, func(t *testing.T) {
			k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
			require.Empty(t, observeFor(k, h, noon, time.Minute).Problems)
			tt.fault(h)
			begin := noon.Add(2 * time.Minute)
			if tt.hold > 0 {
				require.Empty(t, observeFor(k, h, begin, tt.hold-10*time.Second).Problems)
			}
			s := observeFor(k, h, begin.Add(tt.hold), 0)
			require.Equal(t, tt.id, problemIDs(s))
			require.Equal(t, begin, s.Problems[0].Since)
			require.Empty(t, observeFor(k, healthtest.Healthy(), begin.Add(tt.hold+time.Minute), 0).Problems)
		})
	}
}

func TestACounterIsAProblemForAsLongAsTheRuleLooksBack(t *testing.T) {
	for _, tt := range []struct {
		id      string
		n       uint64
		window  time.Duration
		counter func(h *healthtest.Host, n uint64)
	}{
		{"port-flapping", 3, halfHour, func(h *healthtest.Host, n uint64) { h.Port.Flaps = n }},
		{"link-disagrees", 1, halfHour, func(h *healthtest.Host, n uint64) { h.Port.MissedTransitions = n }},
		{"gid-moved", 1, halfHour, func(h *healthtest.Host, n uint64) { h.Port.GIDMoves = n }},
		{"device-fatal", 1, halfHour, func(h *healthtest.Host, n uint64) { h.Device.Fatals = n }},
		{"probe-errors", 3, quarter, func(h *healthtest.Host, n uint64) { h.Probe.Counts.Errors = n }},
		{"lost-events", 3, quarter, func(h *healthtest.Host, n uint64) { h.Probe.Counts.LostEvents = n }},
		{"lost-completions", 3, quarter, func(h *healthtest.Host, n uint64) { h.Probe.Counts.LostCompletions = n }},
		{"app-errors", 1, halfHour, func(h *healthtest.Host, n uint64) { h.App.Types[verbs.EventQPFatal] = n }},
		{"app-errors", 1, halfHour, func(h *healthtest.Host, n uint64) { h.App.Types[verbs.EventCQErr] = n }},
		{"worker-restarts", 3, halfHour, func(h *healthtest.Host, n uint64) { h.Device.Worker.Crashes = n }},
		{"plugin-late", 3, halfHour, func(h *healthtest.Host, n uint64) { h.Collector.Queue.Skipped = n }},
		{"recorder-failing", 1, halfHour, func(h *healthtest.Host, n uint64) { h.Collector.Recorder = &measure.Recorder{Errors: n} }},
		{"recorder-failing", 1, halfHour, func(h *healthtest.Host, n uint64) { h.Collector.Recorder = &measure.Recorder{Lost: n} }},
	} {
		t.Run(tt.id, func(t *testing.T) {
			k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
			at := noon
			step := func(n uint64) *Status {
				at = at.Add(10 * time.Second)
				tt.counter(h, n)
				return k.Observe(h.Points(at), at)
			}
			for n := range tt.n {
				require.Empty(t, step(n).Problems)
			}
			s := step(tt.n)
			grown := at
			require.Equal(t, tt.id, problemIDs(s))
			require.Equal(t, grown, s.Problems[0].Since)
			at = grown.Add(tt.window - time.Minute)
			require.Equal(t, tt.id, problemIDs(step(tt.n)))
			at = grown.Add(tt.window)
			require.Empty(t, step(tt.n).Problems)
			require.Equal(t, tt.id, problemIDs(step(2*tt.n)), "grown by %d in one interval", tt.n)
		})
	}
}

func TestReleasedEventsAreAProblemAfterAWhile(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
	observeFor(k, h, noon, 0)
	h.Async.Released = 1
	require.Empty(t, observeFor(k, h, noon.Add(time.Minute), 3*time.Minute-10*time.Second).Problems)
	require.Equal(t, "unacked-events", problemIDs(observeFor(k, h, noon.Add(4*time.Minute), 0)))
	require.Empty(t, observeFor(k, h, noon.Add(time.Hour), 0).Problems)
}

func TestTheLastFlapIsWhenThePortCameBackFromIt(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
	observeFor(k, h, noon, 0)
	h.Port.Flaps, h.Port.HasStateAge, h.Port.StateAgeNS = 1, true, int64(4*time.Second)
	observeFor(k, h, noon.Add(time.Minute), 0)
	h.Port.StateAgeNS = int64(time.Second) // the device was reset, which is not a flap
	s := observeFor(k, h, noon.Add(3*time.Hour), 0)
	require.Equal(t, noon.Add(time.Minute-4*time.Second), s.Devices[0].Ports[0].LastFlap)
}

func TestWhatIsNoProblem(t *testing.T) {
	for name, change := range map[string]func(*healthtest.Host){
		"a port that is expected to be down": func(h *healthtest.Host) {
			h.Port.State, h.Port.Expected, h.Port.ExpectedUp = verbs.PortDown, true, false
		},
		"a port of a device that is not open": func(h *healthtest.Host) {
			h.Port.State, h.Port.Known, h.Device.Open = verbs.PortAbsent, false, false
		},
		"a device that was renamed": func(h *healthtest.Host) { h.Device.Present, h.Device.Reason = false, status.ReasonRenamed },
		"a device that nothing can open": func(h *healthtest.Host) {
			h.Device.Open, h.Device.Reason, h.Device.Worker.State = false, status.ReasonUnwatchable, status.StateStopped
		},
		"a device that nothing could open and that is gone": func(h *healthtest.Host) {
			h.Device.Present, h.Device.Open, h.Device.Reason, h.Device.Worker.State = false, false, status.ReasonUnwatchable, status.StateStopped
		},
		"a device that is released":             func(h *healthtest.Host) { h.Device.Present, h.Device.Reason = false, status.ReasonReleased },
		"a device that was given away":          func(h *healthtest.Host) { h.Device.Present, h.Device.Reason = false, status.ReasonReassigned },
		"a batch of a probe's acknowledgements": func(h *healthtest.Host) { h.Probe.Unacked = 3 },
		"a port that is down and slower for that": func(h *healthtest.Host) {
			h.Port.State, h.Port.ExpectedUp, h.Port.Attr.RateGbps = verbs.PortDown, false, 10
		},
		"events of an application that are no errors": func(h *healthtest.Host) {
			h.App.Types[verbs.EventCommEst], h.App.Unread, h.App.UnreadAge = 40, 40, int64(time.Hour)
		},
		"a device that a pod has borrowed": func(h *healthtest.Host) {
			h.Device.Open, h.Device.Reason, h.Device.InOtherNetns = false, status.ReasonOtherNetns, true
			h.Device.Worker.State, h.Port.Known = status.StateStopped, false
		},
		"two flaps": func(h *healthtest.Host) { h.Port.Flaps = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
			observeFor(k, h, noon, time.Minute)
			change(h)
			require.Empty(t, observeFor(k, h, noon.Add(2*time.Minute), time.Hour).Problems)
		})
	}
	t.Run("a port that was never active", func(t *testing.T) {
		k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
		h.Port.State, h.Port.ExpectedUp = verbs.PortDown, false
		require.Empty(t, observeFor(k, h, noon, time.Hour).Problems)
	})
	t.Run("a counter that begins again", func(t *testing.T) {
		k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
		h.Port.Flaps = 2
		observeFor(k, h, noon, 0)
		h.Port.Flaps = 0
		require.Empty(t, observeFor(k, h, noon.Add(time.Minute), 0).Problems)
	})
}

func TestAStateIsAProblemForAsLongAsItLasts(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
	observeFor(k, h, noon, 0)
	h.Port.State = verbs.PortDown
	require.Equal(t, "port-down", problemIDs(observeFor(k, h, noon.Add(time.Minute), time.Hour)))
	for at := noon.Add(2 * time.Hour); at.Before(noon.Add(3 * day)); at = at.Add(10 * time.Minute) {
		require.Equal(t, "port-down", problemIDs(observeFor(k, h, at, 0)))
	}
	restarted := NewKeeper("v1", "gpu-17")
	require.Equal(t, "port-down", problemIDs(observeFor(restarted, h, noon.Add(3*day), time.Minute)))
}

func TestTheKeeperForgetsWhatIsGone(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
	h.Async.Unacked = 1
	observeFor(k, h, noon, time.Minute)
	require.NotEmpty(t, k.judge.states)
	k.Observe(nil, noon.Add(day+2*time.Minute))
	require.Empty(t, k.judge.states)
	require.Empty(t, k.flaps)
	require.Empty(t, k.lastSettled)
}

func TestAfterAStartItIsPendingWhatHasNotLasted(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
	h.Device.Open, h.Device.Opens, h.Port.Known = false, 0, false
	s := observeFor(k, h, noon, time.Minute)
	require.Empty(t, s.Problems)
	require.Equal(t, []Pending{{Device: "mlx5_0", Text: "the device is not open"}}, s.Pending)

	h.Device.Open, h.Device.Opens, h.Port.Known, h.Port.State = true, 1, true, verbs.PortDown
	s = observeFor(k, h, noon.Add(70*time.Second), 50*time.Second)
	require.Empty(t, s.Problems)
	require.Equal(t, []Pending{{Device: "mlx5_0", Port: 1, Text: "the port is down"}}, s.Pending)

	s = observeFor(k, h, noon.Add(2*time.Minute), 10*time.Second)
	require.Equal(t, "port-down", problemIDs(s))
	require.Empty(t, s.Pending)

	h.Port.State = verbs.PortActive
	require.Empty(t, observeFor(k, h, noon.Add(3*time.Minute), 0).Pending)
	h.Port.State = verbs.PortDown
	s = observeFor(k, h, noon.Add(4*time.Minute), 50*time.Second)
	require.Empty(t, s.Problems)
	require.Empty(t, s.Pending, "a drop of a plugin that runs is no problem before it has lasted")
}

func TestAPortThatHasNotAnsweredSinceTheStartIsPending(t *testing.T) {
	unanswered := []Pending{{Device: "mlx5_0", Port: 1, Text: "the port does not answer queries"}}
	k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
	h.Port.Known, h.Port.HasState, h.Port.State = false, false, verbs.PortNop
	s := observeFor(k, h, noon, time.Hour)
	require.Empty(t, s.Problems)
	require.Equal(t, unanswered, s.Pending)

	for name, change := range map[string]func(){
		"the device is lent to a pod":       func() { h.Device.Open, h.Device.InOtherNetns = false, true },
		"the port is in expected_down":      func() { h.Port.Expected = true },
		"its firmware refuses queries":      func() { h.Port.Restricted = true },
		"the port is one for management":    func() { h.Port.Role = verbs.RoleManagement },
		"the driver has no state of a port": func() { h.Port.Known, h.Port.HasState = true, true },
	} {
		before := *h
		change()
		require.Empty(t, observeFor(k, h, noon.Add(2*time.Hour), 0).Pending, name)
		*h = before
	}
	require.Equal(t, unanswered, observeFor(k, h, noon.Add(3*time.Hour), 0).Pending)

	h.Port.Known, h.Port.HasState, h.Port.State = true, true, verbs.PortActive
	require.Empty(t, observeFor(k, h, noon.Add(4*time.Hour), 0).Pending)
	h.Port.Known = false
	soon := noon.Add(4*time.Hour + 10*time.Second)
	require.Empty(t, observeFor(k, h, soon, 2*time.Minute).Pending, "a worker that was restarted asks at once")
	require.Equal(t, unanswered, observeFor(k, h, soon.Add(3*time.Minute), time.Hour).Pending)
}

func TestShortageOfDevicesIsPendingOnlyFromTheStart(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
	h.Collector.Counted, h.Collector.ExpectedMissing, h.Collector.ExpectedMissingOf = true, 1, "1 of 8 that match mlx5_*"
	s := observeFor(k, h, noon, 50*time.Second)
	require.Empty(t, s.Problems)
	require.Equal(t, []Pending{{Text: "devices are missing: 1 of 8 that match mlx5_*"}}, s.Pending)

	h.Collector.ExpectedMissing = 0
	require.Empty(t, observeFor(k, h, noon.Add(time.Minute), 0).Pending)
	h.Collector.ExpectedMissing = 1
	s = observeFor(k, h, noon.Add(2*time.Minute), 50*time.Second)
	require.Empty(t, s.Problems)
	require.Empty(t, s.Pending, "a plugin that runs can tell that a shortage is no problem before it has lasted")
	require.Equal(t, "devices-too-few", problemIDs(observeFor(k, h, noon.Add(3*time.Minute), 0)))
}

func TestOfSeveralPluginsOneHasADeviceOpen(t *testing.T) {
	opening := &Status{Devices: []Device{{Device: "mlx5_0"}}, Pending: []Pending{{Device: "mlx5_0", Text: "not yet"}, {Device: "mlx5_1", Text: "not yet"}}}
	open := &Status{Devices: []Device{{Device: "mlx5_0", Open: true}}}
	require.Equal(t, []Pending{{Device: "mlx5_1", Text: "not yet"}}, Merge([]*Status{opening, open}).Pending)
}

func TestProblemsOfAPortForManagementAreWarnings(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
	h.Port.Role = verbs.RoleManagement
	observeFor(k, h, noon, 0)
	h.Port.State, h.Command.Stuck = verbs.PortDown, true
	s := observeFor(k, h, noon.Add(time.Minute), time.Minute)
	require.Equal(t, "port-down command-stuck", problemIDs(s))
	require.Equal(t, alerts.Warning, s.Worst())
	h.Port.Role = "storage"
	require.Equal(t, alerts.Critical, observeFor(k, h, noon.Add(3*time.Minute), time.Minute).Worst())
}

func TestManyFlapsOfADayAreAProblem(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
	h.Port.FlapsDay = 5
	require.Empty(t, observeFor(k, h, noon, time.Minute).Problems)
	h.Port.FlapsDay = 6
	require.Equal(t, "port-flapping", problemIDs(observeFor(k, h, noon.Add(2*time.Minute), 0)))
}

func TestOneLookJudgesAtOnceAndKnowsNoPast(t *testing.T) {
	h := healthtest.Healthy()
	h.Port.State = verbs.PortDown
	h.Device.Open, h.Device.Reason, h.Device.Worker.State = false, status.ReasonNoPermission, status.StateBackingOff
	s := JudgeOnce("v1", "gpu-17", h.Points(noon), noon)
	require.Equal(t, SourceLook, s.Source)
	require.Equal(t, "port-down worker-down", problemIDs(s))
}

func TestFunctionsThatAreNotWatchedAreCounted(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
	h.Collector.FunctionsSkipped = 2
	s := observeFor(k, h, noon, 0)
	require.Equal(t, 2, s.FunctionsSkipped)
	require.Empty(t, s.Problems)
	h.Collector.FunctionsSkipped = 0
	other := observeFor(k, h, noon.Add(time.Minute), 0)
	require.Zero(t, Merge([]*Status{s, other}).FunctionsSkipped, "the other plugin watches them")
}

func TestDeviceInAnotherNamespaceHasTheTimeSinceWhen(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
	h.Device.Open, h.Device.Reason, h.Port.Known = false, status.ReasonOtherNetns, false
	h.Device.InOtherNetns, h.Device.OtherNetnsNS, h.Device.At = true, int64(90*time.Minute), noon
	s := observeFor(k, h, noon, 0)
	require.Equal(t, noon.Add(-90*time.Minute), s.Devices[0].AwaySince)
	require.Empty(t, s.Problems)
}

func TestCommandsOfADeviceAreInItsStatus(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
	h.Command.TookP.P99 = 45_000
	s := observeFor(k, h, noon, 0)
	require.Equal(t, []Command{{Port: 1, Call: "hw_counters", Status: "ok", TookP99NS: 45_000}}, s.Devices[0].Commands)

	h.Command.Stuck, h.Command.BusyNS = true, 6_100_000_000
	s = observeFor(k, h, noon.Add(10*time.Second), 0)
	require.Equal(t, []Command{{Port: 1, Call: "hw_counters", Status: "ok", Stuck: true, BusyNS: 6_100_000_000, TookP99NS: 45_000}}, s.Devices[0].Commands)
}

func TestSlowCommandsAreNoProblemWhileTheyAreStuck(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthtest.Healthy()
	h.Command.TookP = aggregate.Percentiles{Count: 1, P99: 60_000_000_000}
	h.Command.Stuck, h.Command.Errors, h.Command.Status = true, 3, "ETIMEDOUT"
	require.Equal(t, "command-stuck", problemIDs(observeFor(k, h, noon, 20*time.Minute)))
	h.Command.Stuck = false
	require.Empty(t, observeFor(k, h, noon.Add(21*time.Minute), 9*time.Minute).Problems)
	s := observeFor(k, h, noon.Add(30*time.Minute+10*time.Second), time.Minute)
	require.Equal(t, "command-slow", problemIDs(s))
	require.Equal(t, "the firmware takes 60.0 s for hw_counters (p99)", s.Problems[0].Text)
}

func TestSeveralPluginsOnOneHostAreOneStatus(t *testing.T) {
	watched := Device{Device: "mlx5_0", Open: true}
	down := Problem{ID: "port-down", Severity: alerts.Critical, Device: "mlx5_1", Port: 1, Since: noon}
	late := Problem{ID: "plugin-late", Severity: alerts.Warning, Since: noon.Add(-time.Hour)}
	a := &Status{Host: "old", Time: noon, Devices: []Device{{Device: "mlx5_0"}, {Device: "mlx5_1"}}, Problems: []Problem{late, down}}
	b := &Status{Host: "new", Time: noon.Add(time.Second), Devices: []Device{watched}, Problems: []Problem{down}}
	m := Merge([]*Status{a, b})
	require.Equal(t, "new", m.Host)
	require.Equal(t, []Device{watched, {Device: "mlx5_1"}}, m.Devices)
	require.Equal(t, []Problem{down, late}, m.Problems)
	m.KeepOnly(func(device string) bool { return device == "mlx5_1" })
	require.Equal(t, []Problem{down}, m.Problems)
	require.Len(t, m.Devices, 1)
}
