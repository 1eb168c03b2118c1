package health

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/agent/alerts"
	"rdma_events/internal/device/ledger"
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

// host is a host with one device with one port and one probe, an application and a tracer, all well.
type host struct {
	device    measure.Device
	port      measure.Port
	probe     measure.Probe
	async     measure.Async
	command   measure.Command
	app       measure.AppAsync
	hang      measure.AppHang
	tracer    measure.Tracer
	collector measure.Collector
}

func healthy() *host {
	h := &host{
		device: measure.Device{
			Device: "mlx5_0", Present: true, Open: true, Reason: status.ReasonOK,
			Worker: status.Status{State: status.StateRunning, Reason: status.ReasonOK},
			Attr:   verbs.DeviceAttr{Name: "mlx5_0", Driver: "mlx5_core", NUMANode: -1},
		},
		port:    measure.Port{Device: "mlx5_0", Port: 1, Known: true, HasState: true, State: verbs.PortActive, RateBestGbps: 400},
		probe:   measure.Probe{Device: "mlx5_0", ProbeKey: verbs.ProbeKey{Port: 1, Method: verbs.MethodRCWrite}, OK: true, HasOK: true},
		async:   measure.Async{Device: "mlx5_0", Port: 1},
		command: measure.Command{Device: "mlx5_0", Port: 1, Call: verbs.CommandHWCounters, Status: measure.CommandOK},
		app:     measure.AppAsync{Device: "mlx5_0", App: "python3", Attached: true},
		hang:    measure.AppHang{Device: "mlx5_0", App: "python3", Object: verbs.ScopeQP}, // it is over
		tracer:  measure.Tracer{Attached: true},
	}
	h.port.RateExpectedGbps, h.port.ExpectedUp = 400, true
	h.port.Attr = verbs.PortAttr{RateGbps: 400, Width: "4x", LinkLayer: verbs.LinkInfiniBand}
	return h
}

func (h *host) points(now time.Time) []measure.Point {
	h.port.At, h.hang.At = now, now
	return []measure.Point{
		&h.async, &h.port, &h.probe, &h.command, &h.app, &h.hang, &h.device, &measure.Host{At: now}, &h.tracer, &h.collector,
	}
}

// after observes h each 10 s for a duration, and returns the last status.
func after(k *Keeper, h *host, begin time.Time, lasting time.Duration) *Status {
	var s *Status
	for at := time.Duration(0); at <= lasting; at += 10 * time.Second {
		s = k.Observe(h.points(begin.Add(at)), begin.Add(at))
	}
	return s
}

func ids(s *Status) string {
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
		fault func(*host)
	}{
		{"port-down", time.Minute, func(h *host) { h.port.State = verbs.PortDown }},
		{"link-slow", 5 * time.Minute, func(h *host) { h.port.Attr.RateGbps = 200 }},
		{"device-missing", time.Minute, func(h *host) {
			h.device.Present, h.device.Reason, h.port.Known = false, status.ReasonRemoved, false
		}},
		{"unacked-events", 3 * time.Minute, func(h *host) { h.async.Unacked = 1 }},
		{"command-stuck", 30 * time.Second, func(h *host) { h.command.Stuck, h.command.BusyNS = true, 6e9 }},
		{"command-slow", 10 * time.Minute, func(h *host) { h.command.TookP = aggregate.Percentiles{Count: 1, P99: 1e9 + 1} }},
		{"app-errors-unread", 2 * time.Minute, func(h *host) { h.app.Unread, h.app.UnreadErrors = 2, 1 }},
		{"app-destroy-hangs", 0, func(h *host) { h.hang.Threads = 1 }},
		{"tracer-blind", 10 * time.Minute, func(h *host) { h.tracer.Attached = false }},
		{"worker-down", 2 * time.Minute, func(h *host) { h.device.Worker.State = status.StateBackingOff }},
		{"worker-down", 2 * time.Minute, func(h *host) { h.device.Worker.State = status.StateStuck }},
	} {
		t.Run(tt.id, func(t *testing.T) {
			k, h := NewKeeper("v1", "gpu-17"), healthy()
			require.Empty(t, after(k, h, noon, time.Minute).Problems)
			tt.fault(h)
			begin := noon.Add(2 * time.Minute)
			if tt.hold > 0 {
				require.Empty(t, after(k, h, begin, tt.hold-10*time.Second).Problems)
			}
			s := after(k, h, begin.Add(tt.hold), 0)
			require.Equal(t, tt.id, ids(s))
			require.Equal(t, begin, s.Problems[0].Since)
			require.Empty(t, after(k, healthy(), begin.Add(tt.hold+time.Minute), 0).Problems)
		})
	}
}

func TestACounterIsAProblemForAsLongAsTheRuleLooksBack(t *testing.T) {
	for _, tt := range []struct {
		id      string
		n       uint64
		window  time.Duration
		counter func(h *host, n uint64)
	}{
		{"port-flapping", 3, halfHour, func(h *host, n uint64) { h.port.Flaps = n }},
		{"link-disagrees", 1, halfHour, func(h *host, n uint64) { h.port.MissedTransitions = n }},
		{"gid-moved", 1, halfHour, func(h *host, n uint64) { h.port.GIDMoves = n }},
		{"device-fatal", 1, halfHour, func(h *host, n uint64) { h.device.Fatals = n }},
		{"probe-errors", 3, quarter, func(h *host, n uint64) { h.probe.Counts.Errors = n }},
		{"lost-events", 3, quarter, func(h *host, n uint64) { h.probe.Counts.LostEvents = n }},
		{"lost-completions", 3, quarter, func(h *host, n uint64) { h.probe.Counts.LostCompletions = n }},
		{"app-errors", 1, halfHour, func(h *host, n uint64) { h.app.Types[verbs.EventQPFatal] = n }},
		{"app-errors", 1, halfHour, func(h *host, n uint64) { h.app.Types[verbs.EventCQErr] = n }},
		{"worker-restarts", 3, halfHour, func(h *host, n uint64) { h.device.Worker.Crashes = n }},
		{"plugin-late", 3, halfHour, func(h *host, n uint64) { h.collector.Queue.Skipped = n }},
		{"recorder-failing", 1, halfHour, func(h *host, n uint64) { h.collector.Recorder = &measure.Recorder{Errors: n} }},
		{"recorder-failing", 1, halfHour, func(h *host, n uint64) { h.collector.Recorder = &measure.Recorder{Lost: n} }},
	} {
		t.Run(tt.id, func(t *testing.T) {
			k, h := NewKeeper("v1", "gpu-17"), healthy()
			at := noon
			step := func(n uint64) *Status {
				at = at.Add(10 * time.Second)
				tt.counter(h, n)
				return k.Observe(h.points(at), at)
			}
			for n := range tt.n {
				require.Empty(t, step(n).Problems)
			}
			s := step(tt.n)
			grown := at
			require.Equal(t, tt.id, ids(s))
			require.Equal(t, grown, s.Problems[0].Since)
			at = grown.Add(tt.window - time.Minute)
			require.Equal(t, tt.id, ids(step(tt.n)))
			at = grown.Add(tt.window)
			require.Empty(t, step(tt.n).Problems)
			require.Equal(t, tt.id, ids(step(2*tt.n)), "grown by %d in one interval", tt.n)
		})
	}
}

func TestReleasedEventsAreAProblemAfterAWhile(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthy()
	after(k, h, noon, 0)
	h.async.Released = 1
	require.Empty(t, after(k, h, noon.Add(time.Minute), 3*time.Minute-10*time.Second).Problems)
	require.Equal(t, "unacked-events", ids(after(k, h, noon.Add(4*time.Minute), 0)))
	require.Empty(t, after(k, h, noon.Add(time.Hour), 0).Problems)
}

func TestTheLastFlapIsWhenThePortCameBackFromIt(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthy()
	after(k, h, noon, 0)
	h.port.Flaps, h.port.HasStateAge, h.port.StateAgeNS = 1, true, int64(4*time.Second)
	after(k, h, noon.Add(time.Minute), 0)
	h.port.StateAgeNS = int64(time.Second) // a device that was reset: no flap
	s := after(k, h, noon.Add(3*time.Hour), 0)
	require.Equal(t, noon.Add(time.Minute-4*time.Second), s.Devices[0].Ports[0].LastFlap)
}

func TestTextOfAFileCannotControlATerminal(t *testing.T) {
	s := &Status{Devices: []Device{{Device: "a\x1b[2J"}}, Problems: []Problem{{ID: "x", Device: "b\n", Text: "c\x07", Since: noon}}}
	var b strings.Builder
	require.NoError(t, s.WriteText(&b, "gpu\x1b", noon))
	require.NotContains(t, b.String(), "\x1b")
	require.NotContains(t, b.String(), "\x07")
	require.NotContains(t, s.Line(noon), "\n")
}

func TestWhatIsNoProblem(t *testing.T) {
	for name, change := range map[string]func(*host){
		"a port that is expected to be down": func(h *host) { h.port.State, h.port.Expected, h.port.ExpectedUp = verbs.PortDown, true, false },
		"a port of a device that is not open": func(h *host) {
			h.port.State, h.port.Known, h.device.Open = verbs.PortAbsent, false, false
		},
		"a device that was renamed": func(h *host) { h.device.Present, h.device.Reason = false, status.ReasonRenamed },
		"a device that nothing can open": func(h *host) {
			h.device.Open, h.device.Reason, h.device.Worker.State = false, status.ReasonUnwatchable, status.StateStopped
		},
		"a device that nothing could open and that is gone": func(h *host) {
			h.device.Present, h.device.Open, h.device.Reason, h.device.Worker.State = false, false, status.ReasonUnwatchable, status.StateStopped
		},
		"a device that is released":               func(h *host) { h.device.Present, h.device.Reason = false, status.ReasonReleased },
		"a device that was given away":            func(h *host) { h.device.Present, h.device.Reason = false, status.ReasonReassigned },
		"a batch of a probe's acknowledgements":   func(h *host) { h.probe.Unacked = 3 },
		"a port that is down and slower for that": func(h *host) { h.port.State, h.port.ExpectedUp, h.port.Attr.RateGbps = verbs.PortDown, false, 10 },
		"events of an application that are no errors": func(h *host) {
			h.app.Types[verbs.EventCommEst], h.app.Unread, h.app.UnreadAge = 40, 40, int64(time.Hour)
		},
		"a device that a pod has borrowed": func(h *host) {
			h.device.Open, h.device.Reason, h.device.InOtherNetns = false, status.ReasonOtherNetns, true
			h.device.Worker.State, h.port.Known = status.StateStopped, false
		},
		"two flaps": func(h *host) { h.port.Flaps = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			k, h := NewKeeper("v1", "gpu-17"), healthy()
			after(k, h, noon, time.Minute)
			change(h)
			require.Empty(t, after(k, h, noon.Add(2*time.Minute), time.Hour).Problems)
		})
	}
	t.Run("a port that was never active", func(t *testing.T) {
		k, h := NewKeeper("v1", "gpu-17"), healthy()
		h.port.State, h.port.ExpectedUp = verbs.PortDown, false
		require.Empty(t, after(k, h, noon, time.Hour).Problems)
	})
	t.Run("a counter that begins again", func(t *testing.T) {
		k, h := NewKeeper("v1", "gpu-17"), healthy()
		h.port.Flaps = 2
		after(k, h, noon, 0)
		h.port.Flaps = 0
		require.Empty(t, after(k, h, noon.Add(time.Minute), 0).Problems)
	})
}

func TestAStateIsAProblemForAsLongAsItLasts(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthy()
	after(k, h, noon, 0)
	h.port.State = verbs.PortDown
	require.Equal(t, "port-down", ids(after(k, h, noon.Add(time.Minute), time.Hour)))
	for at := noon.Add(2 * time.Hour); at.Before(noon.Add(3 * day)); at = at.Add(10 * time.Minute) {
		require.Equal(t, "port-down", ids(after(k, h, at, 0)))
	}
	restarted := NewKeeper("v1", "gpu-17")
	require.Equal(t, "port-down", ids(after(restarted, h, noon.Add(3*day), time.Minute)))
}

func TestTheKeeperForgetsWhatIsGone(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthy()
	h.async.Unacked = 1
	after(k, h, noon, time.Minute)
	require.NotEmpty(t, k.judge.states)
	k.Observe(nil, noon.Add(day+2*time.Minute))
	require.Empty(t, k.judge.states)
	require.Empty(t, k.flaps)
	require.Empty(t, k.settled)
}

func TestAfterAStartItIsPendingWhatHasNotLasted(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthy()
	h.device.Open, h.device.Opens, h.port.Known = false, 0, false
	s := after(k, h, noon, time.Minute)
	require.Empty(t, s.Problems)
	require.Equal(t, []Pending{{Device: "mlx5_0", Text: "the device has not been opened yet"}}, s.Pending)

	h.device.Open, h.device.Opens, h.port.Known, h.port.State = true, 1, true, verbs.PortDown
	s = after(k, h, noon.Add(70*time.Second), 50*time.Second)
	require.Empty(t, s.Problems)
	require.Equal(t, []Pending{{Device: "mlx5_0", Port: 1, Text: "the port is down"}}, s.Pending)

	s = after(k, h, noon.Add(2*time.Minute), 10*time.Second)
	require.Equal(t, "port-down", ids(s))
	require.Empty(t, s.Pending)

	h.port.State = verbs.PortActive
	require.Empty(t, after(k, h, noon.Add(3*time.Minute), 0).Pending)
	h.port.State = verbs.PortDown
	s = after(k, h, noon.Add(4*time.Minute), 50*time.Second)
	require.Empty(t, s.Problems)
	require.Empty(t, s.Pending, "a drop of a plugin that runs is no problem before it has lasted")
}

func TestShortageOfDevicesIsPendingOnlyFromTheStart(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthy()
	h.collector.Counted, h.collector.ExpectedMissing, h.collector.ExpectedMissingOf = true, 1, "1 of 8 that match mlx5_*"
	s := after(k, h, noon, 50*time.Second)
	require.Empty(t, s.Problems)
	require.Equal(t, []Pending{{Text: "devices are missing: 1 of 8 that match mlx5_*"}}, s.Pending)

	h.collector.ExpectedMissing = 0
	require.Empty(t, after(k, h, noon.Add(time.Minute), 0).Pending)
	h.collector.ExpectedMissing = 1
	s = after(k, h, noon.Add(2*time.Minute), 50*time.Second)
	require.Empty(t, s.Problems)
	require.Empty(t, s.Pending, "a plugin that runs can tell that a shortage is no problem before it has lasted")
	require.Equal(t, "devices-too-few", ids(after(k, h, noon.Add(3*time.Minute), 0)))
}

func TestOfSeveralPluginsOneHasADeviceOpen(t *testing.T) {
	opening := &Status{Devices: []Device{{Device: "mlx5_0"}}, Pending: []Pending{{Device: "mlx5_0", Text: "not yet"}, {Device: "mlx5_1", Text: "not yet"}}}
	open := &Status{Devices: []Device{{Device: "mlx5_0", Open: true}}}
	require.Equal(t, []Pending{{Device: "mlx5_1", Text: "not yet"}}, Merge([]*Status{opening, open}).Pending)
}

func TestProblemsOfAPortForManagementAreWarnings(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthy()
	h.port.Role = verbs.RoleManagement
	after(k, h, noon, 0)
	h.port.State, h.command.Stuck = verbs.PortDown, true
	s := after(k, h, noon.Add(time.Minute), time.Minute)
	require.Equal(t, "port-down command-stuck", ids(s))
	require.Equal(t, alerts.Warning, s.Worst())
	h.port.Role = "storage"
	require.Equal(t, alerts.Critical, after(k, h, noon.Add(3*time.Minute), time.Minute).Worst())
}

func TestManyFlapsOfADayAreAProblem(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthy()
	h.port.FlapsDay = 5
	require.Empty(t, after(k, h, noon, time.Minute).Problems)
	h.port.FlapsDay = 6
	require.Equal(t, "port-flapping", ids(after(k, h, noon.Add(2*time.Minute), 0)))
}

func TestOneLookJudgesAtOnceAndKnowsNoPast(t *testing.T) {
	h := healthy()
	h.port.State = verbs.PortDown
	h.device.Open, h.device.Reason, h.device.Worker.State = false, status.ReasonNoPermission, status.StateBackingOff
	s := Look("v1", "gpu-17", h.points(noon), noon)
	require.Equal(t, SourceLook, s.Source)
	require.Equal(t, "port-down worker-down", ids(s))
	require.Equal(t, "mlx5_0:1 port-down since 12:00; mlx5_0 worker-down no_permission", s.Line(noon))
}

func TestStatusAsText(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthy()
	after(k, h, noon, time.Minute)
	h.port.Attr.Phys = 2
	h.port.State, h.port.HasStateAge, h.port.StateAgeNS = verbs.PortDown, true, int64(90*time.Second)
	h.port.Flaps = 1
	h.probe.Counts = ledger.ProbeCounts{LostCompletions: 4}
	h.probe.OK, h.probe.WakeP.P99 = false, 12_340
	h.command.Stuck, h.command.Errors, h.command.Status = true, 3, "ETIMEDOUT"
	s := after(k, h, noon.Add(2*time.Minute), 90*time.Second)
	var b strings.Builder
	require.NoError(t, s.WriteText(&b, "gpu-17", noon))
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
	require.Equal(t, "mlx5_0:1 port-down since 12:02; mlx5_0:1 lost-completions since 12:02; 1 more", s.Line(noon))
	require.Equal(t, "mlx5_0:1 port-down since 2026-11-23 12:02; 2 more", s.Line(noon.Add(day)))
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
			h := healthy()
			c.change(&h.port)
			s := NewKeeper("v1", "gpu-17").Observe(h.points(noon), noon)
			got := s.Devices[0].Ports[0]
			require.Equal(t, h.port.RateExpectedGbps, got.RateExpectedGbps)
			require.Equal(t, h.port.Role, got.Role)
			var b strings.Builder
			require.NoError(t, s.WriteText(&b, "gpu-17", noon))
			_, rest, _ := strings.Cut(b.String(), "    port 1: ")
			line, _, _ := strings.Cut(rest, "\n")
			require.Equal(t, c.want, strings.TrimSuffix(line, ", should be active"))
		})
	}
}

func TestFunctionsThatAreNotWatchedAreCounted(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthy()
	h.collector.FunctionsSkipped = 2
	s := after(k, h, noon, 0)
	require.Equal(t, 2, s.FunctionsSkipped)
	require.Empty(t, s.Problems)
	var b strings.Builder
	require.NoError(t, s.WriteText(&b, "gpu-17", noon))
	require.Contains(t, b.String(), "\n2 virtual or scalable functions left out; virtual_functions = true watches all\nno problems\n")
	h.collector.FunctionsSkipped = 0
	other := after(k, h, noon.Add(time.Minute), 0)
	require.Zero(t, Merge([]*Status{s, other}).FunctionsSkipped, "the other plugin watches them")
}

func TestDeviceInAnotherNamespaceIsShownWithItsAge(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthy()
	h.device.Open, h.device.Reason, h.port.Known = false, status.ReasonOtherNetns, false
	h.device.InOtherNetns, h.device.OtherNetnsNS, h.device.At = true, int64(90*time.Minute), noon
	s := after(k, h, noon, 0)
	require.Equal(t, noon.Add(-90*time.Minute), s.Devices[0].AwaySince)
	var b strings.Builder
	require.NoError(t, s.WriteText(&b, "gpu-17", noon))
	require.Contains(t, b.String(), "mlx5_0: mlx5_core, other_netns since 10:30\n")
	require.Contains(t, b.String(), "no problems\n")
}

func TestCommandsOfADeviceAreInItsStatus(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthy()
	h.command.TookP.P99 = 45_000
	s := after(k, h, noon, 0)
	require.Equal(t, []Command{{Port: 1, Call: "hw_counters", Status: "ok", TookP99NS: 45_000}}, s.Devices[0].Commands)
	var b strings.Builder
	require.NoError(t, s.WriteText(&b, "gpu-17", noon))
	require.NotContains(t, b.String(), "hw_counters", "what is well takes no line")

	h.command.Stuck, h.command.BusyNS = true, 6_100_000_000
	b.Reset()
	require.NoError(t, after(k, h, noon.Add(10*time.Second), 0).WriteText(&b, "gpu-17", noon))
	require.Contains(t, b.String(), "\n        hw_counters: the firmware does not answer for 6.1 s\n")
}

func TestSlowCommandsAreNoProblemWhileTheyAreStuck(t *testing.T) {
	k, h := NewKeeper("v1", "gpu-17"), healthy()
	h.command.TookP = aggregate.Percentiles{Count: 1, P99: 60_000_000_000}
	h.command.Stuck, h.command.Errors, h.command.Status = true, 3, "ETIMEDOUT"
	require.Equal(t, "command-stuck", ids(after(k, h, noon, 20*time.Minute)))
	h.command.Stuck = false
	require.Empty(t, after(k, h, noon.Add(21*time.Minute), 9*time.Minute).Problems)
	s := after(k, h, noon.Add(30*time.Minute+10*time.Second), time.Minute)
	require.Equal(t, "command-slow", ids(s))
	require.Equal(t, "the firmware takes 60.0 s for hw_counters (p99)", s.Problems[0].Text)
}

func TestALineHas80CharactersAtMost(t *testing.T) {
	s := &Status{}
	for range 12 {
		s.Problems = append(s.Problems, Problem{ID: "ports-down-together", Device: strings.Repeat("d", 63), Port: 255, Since: noon})
		require.LessOrEqual(t, len(s.Line(noon)), 80)
	}
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
	m.Only(func(device string) bool { return device == "mlx5_1" })
	require.Equal(t, []Problem{down}, m.Problems)
	require.Len(t, m.Devices, 1)
}
