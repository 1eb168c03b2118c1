package live

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/record/timeline"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/aggregate"
	"rdma_events/internal/telemetry/measure"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func timeAt(ms int) time.Time {
	return time.Date(2026, 11, 21, 17, 0, 0, ms*int(time.Millisecond), time.Local)
}

func gatherNothing(time.Time) []measure.Point { return nil }

// runScreen runs a Screen while play passes points to it, and returns the output.
func runScreen(t *testing.T, c Config, gather func(time.Time) []measure.Point, play func(*Screen)) string {
	t.Helper()
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		c.Out, c.Now = &out, time.Now
		s := New(c)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx, gather) }()
		play(s)
		synctest.Wait()
		cancel()
		require.NoError(t, <-done)
	})
	return out.String()
}

func deviceView(name string, open bool, why status.Reason) *measure.Device {
	return &measure.Device{
		Device: name, Present: true, Open: open, Reason: why, At: timeAt(0),
		Attr: verbs.DeviceAttr{Ports: 1, Driver: "rdma_rxe", EventsSupported: true},
	}
}

func portView(name string, s verbs.PortState) *measure.Port {
	return &measure.Port{
		Device: name, Port: 1, Known: true, HasState: true, State: s, At: timeAt(1),
		Attr: verbs.PortAttr{RateGbps: 100, Width: "4x", LinkLayer: verbs.LinkEthernet, NetDev: "eth0"},
	}
}

func asyncEvent(typ verbs.EventType, port int, n uint64, ms int) *measure.Event {
	return &measure.Event{Device: "mlx5_0", Type: typ, Port: port, Count: n, At: timeAt(ms)}
}

func portChange(from, to verbs.PortState, w verbs.Witness, lasted time.Duration, ms int) *measure.Change {
	return &measure.Change{
		Device: "mlx5_0", Port: 1, From: from, To: to, Witness: w,
		LastedNS: lasted.Nanoseconds(), HasLasted: lasted > 0, At: timeAt(ms),
	}
}

func emitDrop(s *Screen) {
	s.Emit(deviceView("mlx5_0", true, status.ReasonOK))
	s.Emit(portView("mlx5_0", verbs.PortActive))
	s.Emit(asyncEvent(verbs.EventPortErr, 1, 1, 100))
	s.Emit(portChange(verbs.PortActive, verbs.PortDown, verbs.WitnessEvent, 99*time.Millisecond, 100))
	s.Emit(portView("mlx5_0", verbs.PortDown))
	s.Emit(asyncEvent(verbs.EventPKeyChange, 1, 3, 110))
	s.Emit(asyncEvent(verbs.EventDeviceFatal, 0, 1, 120))
	s.Emit(portChange(verbs.PortDown, verbs.PortActive, verbs.WitnessQuery, 40_123_000, 140))
}

func TestAnEventStandsWithTheChangeThatItMade(t *testing.T) {
	got := runScreen(t, Config{}, gatherNothing, emitDrop)
	require.Equal(t, `17:00:00.000000  mlx5_0      opened: rdma_rxe, 1 port
17:00:00.001000  mlx5_0:1    (first look)         active, 100 Gb/s (4x), ethernet on eth0
17:00:00.100000  mlx5_0:1    port_err             active > down, active for 99ms
17:00:00.110000  mlx5_0:1    pkey_change          (3 times)
17:00:00.120000  mlx5_0      device_fatal
17:00:00.140000  mlx5_0:1    (query)              down > active, down for 40.1ms
`, got)
}

func TestJSONIsOneObjectALine(t *testing.T) {
	got := runScreen(t, Config{JSON: true, Colours: true}, gatherNothing, emitDrop)
	var all []map[string]any
	for line := range strings.Lines(got) {
		var one map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &one), line)
		delete(one, "time")
		all = append(all, one)
	}
	require.Len(t, all, 6)
	require.Equal(t, map[string]any{
		"schema": 1.0, "kind": "event", "device": "mlx5_0", "port": 1.0, "event": "port_err", "count": 1.0,
		"state_from": "active", "state_to": "down", "lasted_ns": 99e6, "witness": "event",
	}, all[2])
	require.Equal(t, map[string]any{
		"schema": 1.0, "kind": "event", "device": "mlx5_0", "port": 1.0, "event": "pkey_change", "count": 3.0,
		"state_from": "down", "state_to": "down",
	}, all[3])
	require.Equal(t, "state", all[5]["kind"])
}

func TestAMovedGIDAndAChangedAttributeAreShown(t *testing.T) {
	move := func(s *Screen) {
		for _, c := range []measure.GIDChange{
			{Action: verbs.GIDRemoved, From: 3, To: -1},
			{Action: verbs.GIDMoved, From: 3, To: 5, AwayNS: 412e6, Probed: true},
			{Action: verbs.GIDAdded, From: -1, To: 7},
			{Action: verbs.GIDReturned, From: 5, To: 5, AwayNS: 1e9},
		} {
			c.Device, c.Port, c.Changes, c.At = "mlx5_0", 1, 1, timeAt(100)
			c.GID = verbs.GID{Raw: netip.MustParseAddr("::ffff:10.4.0.1").As16(), Type: verbs.GIDRoCEv2, NetDev: "eth0"}
			s.Emit(&c)
		}
		s.Emit(&measure.AttrChange{Device: "mlx5_0", Port: 1, Attr: "mtu", From: "4096", To: "1024", Changes: 1, At: timeAt(110)})
	}
	require.Equal(t, `17:00:00.100000  mlx5_0:1    gid                  ::ffff:10.4.0.1 roce_v2 removed from index 3
17:00:00.100000  mlx5_0:1    gid                  ::ffff:10.4.0.1 roce_v2 moved from index 3 to 5, away 412ms
17:00:00.100000  mlx5_0:1    gid                  ::ffff:10.4.0.1 roce_v2 added at index 7
17:00:00.100000  mlx5_0:1    gid                  ::ffff:10.4.0.1 roce_v2 returned at index 5, away 1s
17:00:00.110000  mlx5_0:1    mtu                  4096 > 1024
`, runScreen(t, Config{}, gatherNothing, move))
	second := strings.Split(runScreen(t, Config{JSON: true}, gatherNothing, move), "\n")[1]
	require.Contains(t, second, `"gid":{"gid":"::ffff:10.4.0.1","type":"roce_v2","netdev":"eth0","action":"moved",`+
		`"index_from":3,"index_to":5,"away_ns":412000000,"own_probe":true}`)
}

func TestACommandThatNoFirmwareAnswersIsShownOnceAndItsEndToo(t *testing.T) {
	play := func(s *Screen) {
		for _, c := range []measure.Command{
			{Calls: 1, Status: measure.CommandOK},
			{Calls: 1, Status: measure.CommandOK, Stuck: true, BusyNS: 5_000_000_000},
			{Calls: 1, Status: measure.CommandOK, Stuck: true, BusyNS: 6_000_000_000},
			{Calls: 2, Status: measure.CommandOK},
			{Calls: 5, Errors: 3, Status: "ETIMEDOUT", Stuck: true},
		} {
			c.Device, c.Port, c.Call, c.At = "mlx5_0", 1, verbs.CommandHWCounters, timeAt(100)
			s.Emit(&c)
		}
		other := measure.Command{Device: "mlx5_0", Port: 1, Call: verbs.CommandQueryPort, Calls: 3, Errors: 3, Status: "EIO", Stuck: true, At: timeAt(110)}
		s.Emit(&other)
	}
	require.Equal(t, `17:00:00.100000  mlx5_0:1    command              hw_counters not answered for 5s
17:00:00.100000  mlx5_0:1    command              hw_counters no longer stuck, after 5s
17:00:00.100000  mlx5_0:1    command              hw_counters stuck: ETIMEDOUT
17:00:00.110000  mlx5_0:1    command              query_port stuck: EIO
`, runScreen(t, Config{}, gatherNothing, play))
	all := strings.Split(runScreen(t, Config{JSON: true}, gatherNothing, play), "\n")
	require.Contains(t, all[0], `"kind":"command","device":"mlx5_0","port":1,`+
		`"command":{"call":"hw_counters","stuck":true,"status":"ok","busy_ns":5000000000,"calls":1,"errors":0}`)
	require.Contains(t, all[2], `"command":{"call":"hw_counters","stuck":true,"status":"ETIMEDOUT","calls":5,"errors":3}`)
}

func TestDeviceChangesAreShownOnce(t *testing.T) {
	got := runScreen(t, Config{}, gatherNothing, func(s *Screen) {
		for _, v := range []*measure.Device{
			deviceView("a", false, status.ReasonStarting),
			deviceView("a", true, status.ReasonOK),
			deviceView("a", true, status.ReasonOK),
			deviceView("a", false, status.ReasonRemoved),
			deviceView("a", false, status.ReasonRemoved),
			deviceView("b", false, status.ReasonNoPermission),
			deviceView("a", true, status.ReasonOK),
		} {
			s.Emit(v)
		}
	})
	require.Equal(t, []string{
		"17:00:00.000000  a           opened: rdma_rxe, 1 port",
		"17:00:00.000000  a           not watched: removed",
		"17:00:00.000000  b           not watched: no_permission",
		"17:00:00.000000  a           opened: rdma_rxe, 1 port",
	}, strings.Split(strings.TrimSpace(got), "\n"))
}

func TestTheLogStandsAmongTheLines(t *testing.T) {
	got := runScreen(t, Config{}, gatherNothing, func(s *Screen) {
		log := s.Log().With("device", "a")
		log.Debug("not shown")
		log.Warn("worker of a died of SIGSEGV", "reason", "crashed", "error", errors.New("x"))
		log.Warn("a was removed", "reason", "removed")
		log.Warn("device not responding", "call", "hw_counters", "port", 1, "for", "5s")
		s.Log().Info("no devices")
	})
	require.Regexp(t, `^\S+  a           warning: worker of a died of SIGSEGV; error: x\n\S+ +info: no devices\n$`, got)
}

// probeView returns a probe with four rounds in each second, and its histogram.
func probeView(method verbs.Method, seconds uint64) (*measure.Probe, *measure.Histogram) {
	v := &measure.Probe{
		Device: "mlx5_0", ProbeKey: verbs.ProbeKey{Port: 1, Method: method}, OK: true, HasOK: true,
		Wake: aggregate.Stat{Count: 4, Mean: 45_123}, WakeP: aggregate.Percentiles{P50: 44_000, P99: 1_234_000},
	}
	v.Counts.Rounds, v.Counts.Successes = 4*seconds, 4*seconds
	h := &measure.Histogram{Device: v.Device, ProbeKey: v.ProbeKey, Below: []uint64{0, 0, 0, 3 * seconds, 3 * seconds}}
	for range 13 {
		h.Below = append(h.Below, 4*seconds)
	}
	return v, h
}

func TestProbesAreALineEverySecondWhereThereIsNoTerminal(t *testing.T) {
	var seconds uint64
	gather := func(time.Time) []measure.Point {
		seconds++
		v, h := probeView(verbs.MethodRCWrite, seconds)
		none := verbs.ProbeKey{Port: 2}
		return []measure.Point{
			v, h, &measure.Probe{Device: "mlx5_0", ProbeKey: none}, &measure.Histogram{Device: "mlx5_0", ProbeKey: none},
			&measure.Host{},
		}
	}
	wait := func(*Screen) { <-time.After(2500 * time.Millisecond) }
	got := runScreen(t, Config{Probes: true, ASCII: true}, gather, wait)
	lines := strings.Split(strings.TrimSpace(got), "\n")
	require.Len(t, lines, 2)
	require.Regexp(t, `mlx5_0:1    rc_write v0 wake 45.1µs  p50 44µs    p99 1.23ms  \[@ -\] 50us..200us$`, lines[0])

	seconds = 0
	got = runScreen(t, Config{Probes: true, JSON: true}, gather, wait)
	var one struct{ Probe timeline.Probe }
	require.NoError(t, json.Unmarshal([]byte(strings.Split(got, "\n")[1]), &one))
	require.Equal(t, []timeline.Bucket{{Le: "50us", Count: 6}, {Le: "100us"}, {Le: "200us", Count: 2}}, one.Probe.Buckets)

	require.Empty(t, runScreen(t, Config{}, gather, wait), "probes are not configured")
}

func TestAProbeThatWasReplacedIsNoLongerShown(t *testing.T) {
	var seconds uint64
	gather := func(time.Time) []measure.Point {
		seconds++
		old, histogram := probeView(verbs.MethodRCWrite, seconds)
		now, _ := probeView(verbs.MethodFlush, seconds)
		if seconds == 1 {
			now.Wake.Count, now.HasOK = 0, false
		} else {
			old.Wake = aggregate.Stat{}
		}
		return []measure.Point{old, histogram, now}
	}
	got := runScreen(t, Config{Probes: true}, gather, func(*Screen) { <-time.After(2500 * time.Millisecond) })
	require.Equal(t, 1, strings.Count(got, "rc_write"))
	require.Equal(t, 1, strings.Count(got, "flush"))
}

func TestOnATerminalProbesStayBelowTheLines(t *testing.T) {
	var seconds uint64
	gather := func(time.Time) []measure.Point {
		seconds++
		v, h := probeView(verbs.MethodRCWrite, seconds)
		return []measure.Point{v, h}
	}
	got := runScreen(t, Config{Probes: true, Colours: true, Width: func() int { return 40 }}, gather, func(s *Screen) {
		<-time.After(1100 * time.Millisecond)
		s.Emit(asyncEvent(verbs.EventPortErr, 1, 1, 100))
		<-time.After(100 * time.Millisecond)
	})
	require.Equal(t, strings.Join([]string{
		"\x1b[2mwake: of the last second; p50, p99: of t\x1b[0m",
		"mlx5_0:1    rc_write v0 wake 45.1µs  p50\x1b[0m",
		"\x1b[2A\x1b[J\x1b[2m17:00:00.100000\x1b[0m  mlx5_0:1    \x1b[31mport_err\x1b[0m",
		"\x1b[2mwake: of the last second; p50, p99: of t\x1b[0m",
		"mlx5_0:1    rc_write v0 wake 45.1µs  p50\x1b[0m",
		"",
	}, "\n"), got)
}

func TestReaderThatStopsLosesLinesAndIsWarned(t *testing.T) {
	got := runScreen(t, Config{}, gatherNothing, func(s *Screen) {
		s.mu.Lock() // so that Run cannot take records
		for range maxQueue + 7 {
			s.enqueue(timeline.Record{Kind: timeline.KindLog, Level: "info"})
		}
		s.mu.Unlock()
	})
	require.Equal(t, maxQueue+1, strings.Count(got, "\n"))
	require.Contains(t, got, "warning: 7 lines are dropped")
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("no reader") }

func TestAnErrorOfWritingEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Out: bufio.NewWriterSize(brokenWriter{}, 1), Now: time.Now})
		s.Emit(asyncEvent(verbs.EventPortErr, 1, 1, 100))
		require.ErrorContains(t, s.Run(t.Context(), gatherNothing), "no reader")
	})
}

// Records of two workers arrive in another order than they happened, some milliseconds apart.
func TestLinesAreInTheOrderOfTheirTimes(t *testing.T) {
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Out: &out, Now: time.Now})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx, gatherNothing) }()
		late, early := deviceView("sim1", true, status.ReasonOK), deviceView("sim0", true, status.ReasonOK)
		late.At, early.At = timeAt(20), timeAt(10)
		s.Emit(late)
		time.Sleep(holdTime / 2)
		s.Emit(early)
		time.Sleep(holdTime)
		synctest.Wait()
		first, second := strings.Index(out.String(), "sim0"), strings.Index(out.String(), "sim1")
		require.GreaterOrEqual(t, first, 0, out.String())
		require.Less(t, first, second, out.String())
		cancel()
		require.NoError(t, <-done)
	})
}
