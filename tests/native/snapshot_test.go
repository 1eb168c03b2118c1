package native

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/conformance/standin"
	"rdma_events/internal/device/session"
	"rdma_events/internal/device/verbs"
	"rdma_events/tests/rig"
)

// evidencePoints returns the evidence about a device's events of a type.
func evidencePoints(points []rig.Point, device string, typ verbs.EventType) []rig.Point {
	return rig.Select(points, "rdma_evidence", "device", device, "trigger", typ.String())
}

// explain injects an event, waits for its evidence and returns that.
func (w *world) explain(device string, typ verbs.EventType) rig.Point {
	w.t.Helper()
	before := len(evidencePoints(w.Points(), device, typ))
	w.inject(device, int32(typ), 1)
	points := w.Await("evidence of "+device, 20*time.Second, func(points []rig.Point) bool {
		return len(evidencePoints(points, device, typ)) > before
	})
	return evidencePoints(points, device, typ)[before]
}

// counter makes a counter of a device that only snapshots read.
func (w *world) counter(device string) (path string) {
	w.t.Helper()
	path = filepath.Join(w.dir, "class/infiniband", device, "ports/1/counters/port_rcv_errors")
	w.must(os.WriteFile(path, []byte("7\n"), 0o644))
	return path
}

// awaitAnswers waits until a device is probed and has answered a reading of its counters.
func (w *world) awaitAnswers(device string) {
	w.t.Helper()
	w.awaitProbing(device)
	w.Await("answers", time.Minute, func(points []rig.Point) bool {
		return rig.Last(points, "rdma_command", "device", device, "call", "hw_counters").Int("calls") > 0
	})
}

// hang makes the reading of a counter last for ever.
func (w *world) hang(counter string) {
	w.t.Helper()
	w.must(os.Remove(counter))
	w.must(unix.Mkfifo(counter, 0o644))
}

// unhang gives a counter its value back.
func (w *world) unhang(counter string) {
	w.t.Helper()
	w.must(os.Remove(counter))
	w.must(os.WriteFile(counter, []byte("9\n"), 0o644))
}

// A snapshot has a goroutine of its own. What was read until it hung is reported.
func TestASnapshotThatHangsStopsNoReader(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "silent0")
	w.driver("silent0", "mlx5")
	counter := w.counter("silent0")
	w.start()
	w.awaitAnswers("silent0")
	if p := w.explain("silent0", verbs.EventPKeyChange); p.Int("base_age_ns") < 0 || p.Text("left_out") != "" {
		t.Errorf("want evidence with a base and nothing left out, got %v", p.Fields)
	}
	w.hang(counter)
	began := time.Now()
	w.inject("silent0", int32(verbs.EventLIDChange), 1)
	w.awaitBusy("silent0")
	w.readOn("silent0", 3*time.Second)
	w.awaitStuck("silent0", "hw_counters", began)
	points := w.Await("the evidence of lid_change", 20*time.Second, func(points []rig.Point) bool {
		return len(evidencePoints(points, "silent0", verbs.EventLIDChange)) > 0
	})
	p := evidencePoints(points, "silent0", verbs.EventLIDChange)[0]
	t.Logf("%v", p.Fields)
	if want := "the rest: not answered within 6s"; !strings.Contains(p.Text("left_out"), want) || p.Int("changed") >= 0 {
		t.Errorf("want %q, and no counters, got %v", want, p.Fields)
	}
	w.AwaitLog("worker of silent0 was stuck in read sysfs and was killed", time.Minute)
	w.unhang(counter)
	w.Await("the next worker", time.Minute, func(points []rig.Point) bool {
		return lastPoint(points, "rdma_device", "silent0").Int("worker_restarts") == 1 && isProbing(points, "silent0")
	})
	if p := w.explain("silent0", verbs.EventPKeyChange); p.Text("left_out") != "" {
		t.Errorf("want nothing left out, got %v", p.Fields)
	}
	w.requireUndisturbed()
}

// A worker dies while a snapshot of it is under way.
func TestAKilledWorkerLeavesTheEvidenceThatWaited(t *testing.T) {
	w := newWorld(t, "dies0")
	w.driver("dies0", "mlx5")
	counter := w.counter("dies0")
	w.start()
	w.awaitAnswers("dies0")
	w.explain("dies0", verbs.EventPKeyChange)
	w.hang(counter)
	w.inject("dies0", int32(verbs.EventSMChange), 1)
	w.awaitBusy("dies0")
	w.must(unix.Kill(w.Worker("dies0"), unix.SIGKILL))
	w.unhang(counter)
	points := w.Await("the evidence", 20*time.Second, func(points []rig.Point) bool {
		return len(evidencePoints(points, "dies0", verbs.EventSMChange)) > 0
	})
	p := evidencePoints(points, "dies0", verbs.EventSMChange)[0]
	if want := "the rest: the worker ended before"; !strings.Contains(p.Text("left_out"), want) {
		t.Errorf("want %q, got %v", want, p.Fields)
	}
	w.Await("the next worker", time.Minute, func(points []rig.Point) bool {
		return lastPoint(points, "rdma_device", "dies0").Int("worker_restarts") == 1 && isProbing(points, "dies0")
	})
	if p := w.explain("dies0", verbs.EventSMChange); p.Text("left_out") != "" || p.Int("base_age_ns") < 0 {
		t.Errorf("want evidence of the next worker, with a base of its own, got %v", p.Fields)
	}
	w.requireUndisturbed()
}

// awaitBusy waits until the host sees that the device is in a reading of its counters. The part
// of the snapshot before that is sent by then.
func (w *world) awaitBusy(device string) {
	w.t.Helper()
	w.Await("a reading of the counters of "+device, 20*time.Second, func(points []rig.Point) bool {
		return rig.Last(points, "rdma_command", "device", device, "call", "hw_counters").Int("busy_ns") > 0
	})
}

// Each event is a trigger, and the snapshots keep their pace.
func TestAStormIsExplainedOnceASecondAndTenTimesAMinute(t *testing.T) {
	t.Parallel()
	const (
		burst  = 100 // fits into one write, which a pipe keeps whole
		bursts = 2000
		events = burst * bursts
		during = 15 * time.Second
	)
	w := newWorld(t, "stormy0")
	w.start()
	w.awaitProbing("stormy0")
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/%d", w.Worker("stormy0"), w.controls["stormy0"].AsyncWrite), os.O_WRONLY, 0)
	w.must(err)
	defer f.Close()
	batch := slices.Repeat(standin.AsyncEvent(int32(verbs.EventSMChange), 1), burst)
	began := time.Now()
	tick := time.NewTicker(during / bursts)
	defer tick.Stop()
	for range bursts {
		<-tick.C
		_, err := f.Write(batch)
		w.must(err)
	}
	// The counters are of the ledger, and an interval may end before the stream has brought the last of what it counts.
	points := w.Await("the events", time.Minute, func(points []rig.Point) bool {
		return rig.Last(points, "rdma_async", "device", "stormy0", "port", "1").Int("sm_change") == events &&
			reportedCount(points, "stormy0", "sm_change") >= events
	})
	if n := reportedCount(points, "stormy0", "sm_change"); n != events {
		t.Errorf("want a count of %d, got %d", events, n)
	}
	got := evidencePoints(points, "stormy0", verbs.EventSMChange)
	elapsed := time.Since(began)
	most := min(session.SnapshotsAMinute, int(elapsed/time.Second)+1)
	t.Logf("%d events in %v, %d snapshots, of which the first was begun %v after its trigger",
		events, elapsed, len(got), time.Duration(got[0].Int("age_ns")))
	if elapsed > time.Minute {
		t.Fatalf("the storm took %v, which leaves room for more", elapsed)
	}
	if len(got) < 2 || len(got) > most {
		t.Errorf("want between 2 and %d snapshots, got %d", most, len(got))
	}
	w.requireUndisturbed()
}

// The plugin is killed, and its successor has no counters to compare with at first.
func TestARestartedPluginExplainsOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "device0")
	w.driver("device0", "mlx5") // it has counters
	w.restartDelay = "200ms"
	w.start()
	w.awaitProbing("device0")
	w.explain("device0", verbs.EventSMChange)
	plugin := rig.Children(t, w.PID())
	if len(plugin) != 1 {
		t.Fatalf("want one plugin, got %v", plugin)
	}
	w.must(unix.Kill(plugin[0], unix.SIGKILL))
	w.Await("the successor", time.Minute, func(points []rig.Point) bool { return pluginRestarts(points) == 1 })
	w.awaitProbing("device0")
	if p := w.explain("device0", verbs.EventSMChange); p.Text("left_out") != "" || p.Int("base_age_ns") < 0 {
		t.Errorf("want evidence with a base, got %v", p.Fields)
	}
	points := w.Points()
	if n := len(evidencePoints(points, "device0", verbs.EventSMChange)); n != 2 {
		t.Errorf("want the evidence of each event once, got %d", n)
	}
}

// pluginRestarts returns the number of times that the plugin's uptime began again.
func pluginRestarts(points []rig.Point) (n int) {
	var last int64
	for _, p := range rig.Select(points, "rdma_collector") {
		if p.Int("uptime_ns") < last {
			n++
		}
		last = p.Int("uptime_ns")
	}
	return n
}
