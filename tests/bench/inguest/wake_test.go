//go:build guest

package inguest

import (
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/clock"
	"rdma_events/tests/bench"
	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

const wakeSection = "Probe"

// latency is one turn's wake-up latency in ns.
type latency struct{ p50, p99 float64 }

// wakeFigures collects the turns of one pace.
type wakeFigures struct{ p50, p99 bench.Figure }

// methods are the probe methods that are measured: the one that the plugin prefers on RoCE, and the one that it prefers
// on InfiniBand.
var methods = []verbs.Method{verbs.MethodUDSend, verbs.MethodRCWrite}

func newWakeFigures(m verbs.Method, pace, note string) *wakeFigures {
	f := bench.Figure{Section: wakeSection, Unit: "us", OtherIs: "C loop"}
	w := &wakeFigures{f, f}
	w.p50.What, w.p50.Bound = fmt.Sprintf("%s, wake p50, %s", m, pace), 1.05
	w.p99.What, w.p99.Bound = fmt.Sprintf("%s, wake p99, %s", m, pace), 1.25
	w.p50.Note = note
	return w
}

func (w *wakeFigures) turn(ours, other latency) {
	w.p50.Ours, w.p50.Other = append(w.p50.Ours, ours.p50/1e3), append(w.p50.Other, other.p50/1e3)
	w.p99.Ours, w.p99.Other = append(w.p99.Ours, ours.p99/1e3), append(w.p99.Other, other.p99/1e3)
}

func TestWakeBackToBack(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddRxe(t, device, netdev)
	const rounds = 8000
	for _, m := range methods {
		figures := newWakeFigures(m, "back to back",
			"a Go program over the native backend, since the plugin's shortest interval leaves room for a timeout; 8,000 rounds a turn")
		for i := range turns {
			var ours, other latency
			inTurn(i, func() { ours = measureDirect(t, m, rounds) }, func() { other = cLoop(t, m, rounds, 0) })
			figures.turn(ours, other)
		}
		addFigures(figures.p50, figures.p99)
	}
}

// inTurn runs a and b, in an order that changes with each turn.
func inTurn(turn int, a, b func()) {
	if turn%2 == 1 {
		a, b = b, a
	}
	a()
	b()
}

// measureDirect runs probe rounds back to back, as the prober of a worker does, and returns their latency.
func measureDirect(t *testing.T, m verbs.Method, rounds int) latency {
	t.Helper()
	var wakes []int64
	for _, r := range backToBack(t, m, rounds, 1) {
		wakes = append(wakes, r.Wake)
	}
	slices.Sort(wakes)
	return latency{float64(wakes[len(wakes)/2]), float64(wakes[len(wakes)*99/100])}
}

func backToBack(t *testing.T, m verbs.Method, count, ackBatch int) []verbs.Round {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	dev, led := openDevice(t)
	defer closeDevice(t, dev)
	p, err := dev.NewProbe(verbs.ProbeConfig{
		ProbeKey: verbs.ProbeKey{Port: 1, Method: m}, Timeout: time.Second, AckBatch: ackBatch, GIDIndex: -1, PKeyIndex: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	rounds := make([]verbs.Round, 0, count)
	rings := verbs.NewInbox(led)
	for len(rounds) < count {
		// A call ends before the ring is full.
		last, n, err := p.Rounds(verbs.Pace{Interval: 1, For: 2 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		if last.Outcome != verbs.OutcomeSuccess {
			t.Fatalf("want every round to succeed, got %s: %s", last.Outcome, last.Status)
		}
		items, err := rings.Merge(nil, clock.Monotonic())
		if err != nil || len(items) != n {
			t.Fatalf("want %d rounds in the ring, got %d: %v", n, len(items), err)
		}
		for _, it := range items {
			rounds = append(rounds, it.Round.Round)
		}
	}
	if err := p.Close(time.Second); err != nil {
		t.Fatal(err)
	}
	return rounds
}

// TestBatchedAcknowledgement measures the effect of ack_batch. ibv_ack_cq_events
// takes a mutex once for a batch, and the oldest event of a batch is held until
// the batch is acknowledged.
func TestBatchedAcknowledgement(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddRxe(t, device, netdev)
	ack := bench.Figure{
		Section: wakeSection, What: "acknowledgement per event, back to back, ack_batch 32", Unit: "ns", OtherIs: "ack_batch 1",
	}
	hold := ack
	hold.What, hold.Unit = "greatest hold, back to back, ack_batch 32", "us"
	for i := range turns {
		var many, one []verbs.Round
		inTurn(i, func() { many = backToBack(t, verbs.MethodRCWrite, 4096, 32) }, func() { one = backToBack(t, verbs.MethodRCWrite, 4096, 1) })
		for _, side := range []struct {
			rounds    []verbs.Round
			ack, hold *[]float64
		}{{many, &ack.Ours, &hold.Ours}, {one, &ack.Other, &hold.Other}} {
			var acks, longest float64
			for _, r := range side.rounds {
				acks += float64(r.Ack)
				longest = max(longest, float64(r.Hold))
			}
			*side.ack = append(*side.ack, acks/float64(len(side.rounds)))
			*side.hold = append(*side.hold, longest/1e3)
		}
	}
	hold.Note = "with a probe a second it is 32 s; unacknowledged events hold up the destruction of a queue"
	addFigures(ack, hold)
}

func cLoop(t *testing.T, m verbs.Method, rounds int, pace time.Duration) latency {
	t.Helper()
	out, err := exec.Command(programPath(t, "CQPROBE_BIN"), device, strconv.Itoa(rounds),
		strconv.FormatInt(pace.Microseconds(), 10), m.String()).CombinedOutput()
	if err != nil {
		t.Fatalf("run the C loop: %v: %s", err, out)
	}
	return parseLoop(t, string(out))
}

func parseLoop(t *testing.T, out string) latency {
	t.Helper()
	var l latency
	if _, err := fmt.Sscanf(out, "wake p50 %f p99 %f", &l.p50, &l.p99); err != nil {
		t.Fatalf("parse %q: %v", out, err)
	}
	return l
}

func TestWakeEvery4ms(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddRxe(t, device, netdev)
	const (
		rounds = 2500
		pace   = 4 * time.Millisecond
	)
	for _, m := range methods {
		figures := newWakeFigures(m, "4 ms apart",
			"the plugin under Telegraf, over the 10 s before a gathering, the one before it within; 2,500 rounds of the C loop a turn")
		for i := range turns {
			var ours, other latency
			inTurn(i, func() { ours = measureProduct(t, m, pace) }, func() { other = cLoop(t, m, rounds, pace) })
			figures.turn(ours, other)
		}
		if m == verbs.MethodRCWrite {
			figures.p50.Missed = writeMissed
		}
		addFigures(figures.p50, figures.p99)
	}
}

// writeMissed explains why rc_write misses its target 4 ms apart.
const writeMissed = "it is 0.87 to 1.13 from run to run, and 0.6 to 1.7 in single turns. System calls and sched_switch, traced over " +
	"14,000 rounds of each: the post, which on soft RoCE is the whole way in the kernel, takes 82 us beside 64, and the turn of " +
	"ksoftirqd after it, with none of our code either, 10 beside 8; what is ours, to the event read, takes 12 beside 16, and no " +
	"round of either slept. The same kernel code runs slower, then, where a whole plugin and Telegraf have run in the pause"

// measureProduct lets the plugin probe until Telegraf has gathered twice, and returns the latency that it reports.
func measureProduct(t *testing.T, m verbs.Method, pace time.Duration) latency {
	t.Helper()
	r := startProduct(t, m, pace, 10*time.Second)
	<-time.After(2*gathering + time.Second)
	r.Stop()
	return productLatency(r, m)
}

// gathering is Telegraf's default interval. It flushes as often.
const gathering = 10 * time.Second

// startProduct starts the plugin with a probe at a pace, under Telegraf with its
// default intervals. The percentiles cover a window. No process may read
// Telegraf's output during the measurement.
func startProduct(t *testing.T, m verbs.Method, pace, window time.Duration) *rig.Telegraf {
	t.Helper()
	return rig.Start(t, rig.Config{
		Plugin: probeConfig(m, pace, window), Interval: gathering.String(), Flush: gathering.String(),
	})
}

func probeConfig(m verbs.Method, pace, window time.Duration) string {
	return fmt.Sprintf(`[[inputs.rdma_events]]
  [inputs.rdma_events.probe]
    interval = %q
    timeout = %q
    window = %q
    method = %q
`, pace, pace*3/4, window, m)
}

// productLatency returns the last latency that a Telegraf wrote before it ended.
func productLatency(r *rig.Telegraf, m verbs.Method) latency {
	p := rig.Last(r.Points(), "rdma_cq_probe", "method", m.String())
	return latency{float64(p.Int("wake_ns_p50")), float64(p.Int("wake_ns_p99"))}
}

// TestWakeAndCPUEverySecond runs the plugin and the C loop at the same time, because
// a round takes a second. The two programs wait for most of that second and disturb
// each other for some 0.1 ms of it.
func TestWakeAndCPUEverySecond(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddRxe(t, device, netdev)
	const rounds = 20
	const method = verbs.MethodUDSend // what the plugin prefers here
	figures := newWakeFigures(method, "1 s apart",
		"at the same time on one device; 20 rounds a turn, so that p99 is the greatest; Telegraf with its defaults")
	cpu := bench.Figure{
		Section: "Cost", What: "CPU of plugin and worker at one probe a second, a gathering every 10 s, beyond the C loop's", Unit: "% of a core", Bound: 0.1,
		Missed: "the cores are emulated. sched_switch over 30 s: worker 0.70 % and host 0.58 % of a core, in 11 time slices a second " +
			"each that do work, of some 0.6 ms, and those of Go's monitor, 0.14 and 0.17 %; on real cores, with the simulator, the " +
			"target is met (below)",
	}
	var spent, theirs []string
	for range turns {
		r := startProduct(t, method, time.Second, 5*time.Minute)
		r.AwaitLog(method.String(), time.Minute)
		loop := startProcess(t, programPath(t, "CQPROBE_BIN"), device, strconv.Itoa(rounds), "1000000", method.String())
		pids := append(rig.Children(t, r.PID()), r.Workers()...)
		ours, other := measureCPU(t, 2*gathering, pids, []int{loop.cmd.Process.Pid})
		cpu.Ours = append(cpu.Ours, ours-other)
		spent, theirs = append(spent, fmt.Sprintf("%.2f", ours)), append(theirs, fmt.Sprintf("%.2f", other))
		result := parseLoop(t, loop.await("wake p50").text)
		loop.stop(false)
		r.Stop()
		figures.turn(productLatency(r, method), result)
	}
	cpu.Note = "emulated cores, some fifteen times slower than real ones; plugin and worker " + strings.Join(spent, ", ") +
		" %, C loop " + strings.Join(theirs, ", ") + " %"
	addFigures(figures.p50, figures.p99, cpu)
}

// measureCPU returns the processor time that two groups of processes use during a
// time, in percent of a core.
func measureCPU(t *testing.T, over time.Duration, a, b []int) (float64, float64) {
	t.Helper()
	beforeA, beforeB, began := cpuTime(t, a), cpuTime(t, b), time.Now()
	<-time.After(over)
	share := func(used time.Duration) float64 { return 100 * float64(used) / float64(time.Since(began)) }
	return share(cpuTime(t, a) - beforeA), share(cpuTime(t, b) - beforeB)
}

func cpuTime(t *testing.T, pids []int) time.Duration {
	t.Helper()
	used, err := bench.CPUTime(pids)
	if err != nil {
		t.Fatal(err)
	}
	return used
}
