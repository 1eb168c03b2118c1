package native

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/conformance/standin"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/tests/rig"
)

// reportedIn is how long the plugin may take to report a call that has no answer (design: 5 s of
// evidence.command_stuck, and one more). The tests allow ten times of it, and print what
// they saw.
const reportedIn = 6 * time.Second

// driver makes a device behave as with a driver.
func (w *world) driver(device, name string) {
	w.t.Helper()
	p, ok := standin.FindProfile(name)
	if !ok {
		w.t.Fatalf("the stand-in has no profile %s", name)
	}
	w.take(device, p)
}

// awaitStuck waits until a call of a device is reported as stuck, and prints how long that
// took from when the call began, by the test's clock and by the plugin's.
func (w *world) awaitStuck(device, call string, began time.Time) {
	w.t.Helper()
	points := w.Await(call+" of "+device+" is stuck", 10*reportedIn, func(points []rig.Point) bool {
		return rig.Last(points, "rdma_command", "device", device, "call", call).Int("stuck") == 1
	})
	took := time.Since(began)
	for _, p := range rig.Select(points, "rdma_command", "device", device, "call", call) {
		if p.Int("stuck") == 1 {
			w.t.Logf("%s of %s is reported as stuck after %v; busy for %v then", call, device, took, time.Duration(p.Int("busy_ns")))
			if p.Int("busy_ns") < int64(5*time.Second) {
				w.t.Errorf("%s of %s counts as stuck before evidence.command_stuck: %v", call, device, p.Fields)
			}
			break
		}
	}
	w.Await("the host counts it", 10*reportedIn, func(points []rig.Point) bool {
		return rig.Last(points, "rdma_host").Int("commands_stuck") == 1
	})
}

// awaitHang waits until the library is in the call that was to hang, and returns when.
func (w *world) awaitHang(device string) time.Time {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); w.controls[device].HangCall != 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("%s does not make the call that hangs", device)
		}
	}
	return time.Now()
}

// release ends the call that hangs in the kernel, by ending the child for which it waits.
func (w *world) release(device string) {
	w.t.Helper()
	children := rig.Children(w.t, w.Worker(device))
	if len(children) != 1 {
		w.t.Fatalf("want one child of the worker of %s, got %v", device, children)
	}
	w.must(unix.Kill(children[0], unix.SIGKILL))
}

// readOn injects events for a while and requires that each is counted, and that the worker
// stays.
func (w *world) readOn(device string, during time.Duration) {
	w.t.Helper()
	count := func(points []rig.Point) int64 {
		return rig.Last(points, "rdma_async", "device", device, "port", "1").Int("sm_change")
	}
	// These make probers choose again, and with that make and destroy queue pairs.
	for _, moves := range []verbs.EventType{verbs.EventGIDChange, verbs.EventPortErr, verbs.EventPortActive} {
		w.inject(device, int32(moves), 1)
	}
	before, worker, n := max(0, count(w.Points())), w.Worker(device), int64(0)
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		w.inject(device, int32(verbs.EventSMChange), 1)
		n++
	}
	w.Await(fmt.Sprintf("%d events of %s", n, device), 10*time.Second, func(points []rig.Point) bool { return count(points) == before+n })
	if now := w.Worker(device); now != worker {
		w.t.Errorf("%s has another worker, %d and not %d", device, now, worker)
	}
	w.t.Logf("%d events of %s read in %v", n, device, during)
}

// A worker whose query waits in the kernel cannot be killed, and everything else in it
// works. So it stays, for longer than a worker may otherwise be in one call, and what is
// stuck is reported.
func TestACommandThatHangsInTheKernelStopsNoReader(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		call, driver string
		hang         ledger.Call
	}{
		{"query_port", "mlx5", ledger.CallQueryPort},
		{"query_qp", "qedr", ledger.CallQueryQP},
	} {
		t.Run(c.call, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "silent0")
			w.driver("silent0", c.driver)
			w.method = "rc_write"
			w.start()
			w.awaitProbing("silent0")
			w.Await("answers", time.Minute, func(points []rig.Point) bool {
				return rig.Last(points, "rdma_command", "device", "silent0", "call", c.call).Int("calls") > 0
			})
			w.controls["silent0"].HangInKernel = 1
			w.controls["silent0"].HangCall = int32(c.hang)
			began := w.awaitHang("silent0")
			w.awaitStuck("silent0", c.call, began)
			w.readOn("silent0", 10*time.Second)
			if hung := time.Since(began); hung < 15*time.Second {
				t.Fatalf("the call has hung for %v only", hung)
			}
			w.release("silent0")
			points := w.Await("answers again", time.Minute, func(points []rig.Point) bool {
				p := rig.Last(points, "rdma_command", "device", "silent0", "call", c.call)
				return p.Int("stuck") == 0 && p.Text("status") == "ok"
			})
			if d := lastPoint(points, "rdma_device", "silent0"); d.Int("worker_restarts") != 0 || d.Int("opens") != 1 {
				t.Errorf("silent0 was opened again: %v", d.Fields)
			}
			w.AwaitLog("device not responding, call "+c.call+", port 1, for 5s", time.Minute)
			w.AwaitLog("device responding again, call "+c.call+", port 1", time.Minute)
			w.requireUndisturbed()
		})
	}
}

// A call that waits where a signal reaches it ends with its worker, which is replaced. Until
// then events are read.
func TestAHungHWCounterIsReportedAndItsWorkerReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "silent0")
	w.driver("silent0", "mlx5")
	counter := filepath.Join(w.dir, "class/infiniband/silent0/ports/1/hw_counters/resp_cqe_flush_error")
	w.start()
	w.awaitProbing("silent0")
	w.Await("answers", time.Minute, func(points []rig.Point) bool {
		return rig.Last(points, "rdma_command", "device", "silent0", "call", "hw_counters").Int("calls") > 0
	})
	w.must(os.Remove(counter))
	w.must(unix.Mkfifo(counter, 0o644))
	began := time.Now() // the next reading begins within command_interval
	w.readOn("silent0", 3*time.Second)
	w.awaitStuck("silent0", "hw_counters", began)
	w.AwaitLog("worker of silent0 was stuck in read sysfs and was killed", time.Minute)
	w.must(os.Remove(counter))
	w.must(os.WriteFile(counter, []byte("0\n"), 0o644))
	w.Await("answers again", time.Minute, func(points []rig.Point) bool {
		p := rig.Last(points, "rdma_command", "device", "silent0", "call", "hw_counters")
		return p.Int("stuck") == 0 && p.Text("status") == "ok"
	})
	w.awaitProbing("silent0")
	w.requireUndisturbed()
}

// A device whose commands fail is stuck after three, and until one succeeds.
func TestCommandsThatFailAreCountedAndNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "failing0")
	w.driver("failing0", "qedr")
	w.method = "rc_write"
	w.start()
	w.awaitProbing("failing0")
	c := w.controls["failing0"]
	c.FailErrno, c.FailAlways = int32(unix.ETIMEDOUT), 1
	c.FailCall = int32(ledger.CallQueryQP)
	points := w.Await("three failures", time.Minute, func(points []rig.Point) bool {
		return rig.Last(points, "rdma_command", "device", "failing0", "call", "query_qp").Int("stuck") == 1
	})
	for _, p := range rig.Select(points, "rdma_command", "device", "failing0", "call", "query_qp") {
		if p.Int("stuck") == 1 && (p.Int("errors") < 3 || p.Text("status") != "ETIMEDOUT") {
			t.Errorf("want stuck after three ETIMEDOUT, got %v", p.Fields)
		}
	}
	c.FailCall = 0
	w.Await("a success", time.Minute, func(points []rig.Point) bool {
		p := rig.Last(points, "rdma_command", "device", "failing0", "call", "query_qp")
		return p.Int("stuck") == 0 && p.Text("status") == "ok" && p.Int("took_ns_p50") > 0
	})
	w.requireUndisturbed()
}

// Each command costs the device's firmware, so what counts is what arrives there.
func TestADeviceIsAskedNoMoreOftenThanConfigured(t *testing.T) {
	t.Parallel()
	const interval = time.Second // evidence.command_interval of configuration
	began := time.Now()
	w := newWorld(t, "asked0")
	w.driver("asked0", "qedr")
	w.method = "rc_write"
	w.start()
	w.awaitProbing("asked0")
	points := w.Await("six calls", time.Minute, func(points []rig.Point) bool {
		return rig.Last(points, "rdma_command", "device", "asked0", "call", "query_qp").Int("calls") >= 6
	})
	made := int64(atomic.LoadUint32(&w.controls["asked0"].Calls[ledger.CallQueryQP]))
	elapsed := time.Since(began)
	t.Logf("%d calls in %v", made, elapsed)
	if most := int64(elapsed/interval) + 1; made > most {
		t.Errorf("want at most %d calls in %v, got %d", most, elapsed, made)
	}
	if reported := rig.Last(points, "rdma_command", "device", "asked0", "call", "query_qp").Int("calls"); reported > made {
		t.Errorf("%d calls are reported, and %d were made", reported, made)
	}
	if n := atomic.LoadUint32(&w.controls["healthy0"].Calls[ledger.CallQueryQP]); n != 0 {
		t.Errorf("a device whose driver answers from memory was asked %d times", n)
	}
	w.requireUndisturbed()
}
