package native

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/conformance/standin"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/tests/rig"
)

// TestNativeFaults causes all faults of one kind at once, each on its own device.
// This also shows that no fault affects another device.
func TestNativeFaults(t *testing.T) {
	var tb table
	complete := true
	groups := []struct {
		name string
		run  func(*testing.T, *table)
	}{
		{"a crash", testCrashes},
		{"a call that never returns", testHangs},
		{"an error", testFailures},
		{"other misbehaviour", testOddities},
	}
	for _, group := range groups {
		complete = t.Run(group.name, func(t *testing.T) { group.run(t, &tb) }) && complete
	}
	if complete && len(groups) == len(tb.groups()) { // -run left out none
		tb.compare(t)
	}
}

// trigger is the event that makes a worker reach a call.
type trigger int

const (
	byItself  trigger = iota
	byEvent           // an event is read and acknowledged
	byRenewal         // an event makes the worker recreate its probe
	byRemoval
)

// calls are all calls that a worker makes into the library, in their order from its
// start to its end.
var calls = []struct {
	call ledger.Call
	by   trigger
}{
	{ledger.CallLoadLibrary, byItself},
	{ledger.CallGetDeviceList, byItself},
	{ledger.CallOpenDevice, byItself},
	{ledger.CallQueryDevice, byItself},
	{ledger.CallQueryPort, byItself},
	{ledger.CallAllocPD, byItself},
	{ledger.CallCreateCompChannel, byItself},
	{ledger.CallCreateCQ, byItself},
	{ledger.CallReqNotifyCQ, byItself},
	{ledger.CallCreateQP, byItself},
	{ledger.CallModifyQP, byItself},
	{ledger.CallCreateAH, byItself},
	{ledger.CallDestroyAH, byItself},
	{ledger.CallRegMR, byItself},
	{ledger.CallPostRecv, byItself},
	{ledger.CallPostSend, byItself},
	{ledger.CallGetCQEvent, byItself},
	{ledger.CallPollCQ, byItself},
	{ledger.CallAckCQEvents, byItself},
	{ledger.CallGetAsyncEvent, byEvent},
	{ledger.CallAckAsyncEvent, byEvent},
	{ledger.CallDestroyQP, byRenewal},
	{ledger.CallDeregMR, byRenewal},
	{ledger.CallDestroyCQ, byRenewal},
	{ledger.CallDestroyCompChannel, byRenewal},
	{ledger.CallDeallocPD, byRenewal},
	{ledger.CallCloseDevice, byRemoval},
}

// pull makes the worker of an open device reach a call.
func (w *world) pull(device string, by trigger) {
	w.t.Helper()
	switch by {
	case byEvent:
		w.inject(device, int32(verbs.EventSMChange), 1)
	case byRenewal:
		w.inject(device, int32(verbs.EventGIDChange), 1)
	case byRemoval:
		w.remove(device)
	case byItself:
	}
}

// deviceOf returns the name of the device that has its fault in a call.
func deviceOf(call ledger.Call) string {
	return "in_" + strings.TrimPrefix(strings.ReplaceAll(call.String(), " ", "_"), "ibv_")
}

// everyCall starts a world with a device for each call, on which order sets the
// fault.
func everyCall(t *testing.T, order func(*standin.Control, ledger.Call)) *world {
	t.Helper()
	var devices, waiting []string
	for _, c := range calls {
		devices = append(devices, deviceOf(c.call))
		if c.by != byItself {
			waiting = append(waiting, deviceOf(c.call))
		}
	}
	w := newWorld(t, devices...)
	for _, c := range calls {
		order(w.controls[deviceOf(c.call)], c.call)
	}
	w.start()
	w.awaitProbing(waiting...)
	for _, c := range calls {
		w.pull(deviceOf(c.call), c.by)
	}
	return w
}

// hasRecovered reports whether the worker was replaced once and its device is probed
// again, or whether the device is gone. A device that is gone may have had no restart:
// it depends on the load whether another worker starts before the removal is found.
func hasRecovered(points []rig.Point, device string, by trigger) bool {
	p := lastPoint(points, "rdma_device", device)
	if by == byRemoval && p.Int("present") == 0 {
		return p.Int("worker_restarts") <= 1 && p.Text("worker_state") == "stopped"
	}
	return p.Int("worker_restarts") == 1 && isProbing(points, device)
}

func (w *world) awaitRecovery(limit time.Duration) []rig.Point {
	w.t.Helper()
	var left []string
	defer func() {
		if len(left) > 0 {
			w.t.Log("not recovered: ", left)
		}
	}()
	w.Await("the recovery of all", limit, func(points []rig.Point) bool {
		left = nil
		for _, c := range calls {
			if device := deviceOf(c.call); !hasRecovered(points, device, c.by) {
				left = append(left, fmt.Sprint(device, " ", lastPoint(points, "rdma_device", device).Fields))
			}
		}
		return len(left) == 0
	})
	w.awaitLog()
	return w.Points()
}

func testCrashes(t *testing.T, tb *table) {
	w := everyCall(t, func(c *standin.Control, call ledger.Call) {
		c.CrashCall, c.CrashSignal = int32(call), int32(syscall.SIGSEGV)
	})
	points := w.awaitRecovery(time.Minute)
	for _, c := range calls {
		w.requireCrashReport(deviceOf(c.call), "died of SIGSEGV in "+c.call.String())
		w.note(tb, points, deviceOf(c.call), "SIGSEGV in "+callMarkdown(c.call))
	}
	w.requireUndisturbed()
}

// requireCrashReport requires one line that states how the worker died, and one
// with its trace.
func (w *world) requireCrashReport(device, how string) {
	w.t.Helper()
	var reports, traces int
	for _, line := range w.complaints(device) {
		switch {
		case strings.HasPrefix(line, "E! "+device+": worker of "+device+" "+how):
			reports++
		case strings.Contains(line, traceOf+"SIG") && strings.Contains(line, "_Cfunc_") && len(line) < 4<<10:
			traces++
		}
	}
	if reports != 1 || traces != 1 {
		w.t.Errorf("%s: want one line that it %s and one with the trace, got %d and %d:\n%s", device, how, reports, traces,
			strings.Join(w.complaints(device), "\n"))
	}
}

func callMarkdown(call ledger.Call) string { return "`" + call.String() + "`" }

func (w *world) note(tb *table, points []rig.Point, device, fault string) {
	w.t.Helper()
	tb.rows = append(tb.rows, row{fault, describeOutcome(points, device), w.outcome(points, device), w.t.Name()})
}

func testHangs(t *testing.T, tb *table) {
	w := everyCall(t, func(c *standin.Control, call ledger.Call) { c.HangCall = int32(call) })
	points := w.awaitRecovery(time.Minute)
	for _, c := range calls {
		w.note(tb, points, deviceOf(c.call), callMarkdown(c.call)+" never returns")
	}
	w.requireUnacknowledged(deviceOf(ledger.CallAckAsyncEvent), "rdma_async")
	w.requireUnacknowledged(deviceOf(ledger.CallAckCQEvents), "rdma_cq_probe")
	w.requireUndisturbed()
}

// requireUnacknowledged requires that an event was reported as not acknowledged
// while its acknowledgement hung, and as released once the worker had ended.
func (w *world) requireUnacknowledged(device, measurement string) {
	w.t.Helper()
	var hanging int
	points := rig.Select(w.Points(), measurement, "device", device)
	for _, p := range points {
		if p.Int("unacked") > 0 {
			hanging++
		}
		for _, a := range []string{"events", "read"} {
			if n := p.Int(a); n >= 0 && n != p.Int("acked")+p.Int("unacked")+p.Int("released") {
				w.t.Errorf("%s: parity does not hold: %v", p.Series(), p.Fields)
			}
		}
	}
	released := rig.Sum(points[len(points)-1:], "released")
	if measurement == "rdma_async" {
		released = lastPoint(rig.Select(w.Points(), measurement, "device", device, "port", "1"), measurement, device).Int("released")
	}
	if hanging < 8 || released != 1 {
		w.t.Errorf("%s: want unacked above 0 for seconds and then 1 released, got %d points and %d", device, hanging, released)
	}
}

// callErrnos returns the errnos with which a call fails. For two calls the man pages
// ibv_get_device_list(3) and ibv_reg_mr(3) name them. For all other calls the man
// pages state only that errno is set or returned; these fail with one errno of
// each kind that the kernel returns: no permission, no memory, an invalid
// argument, no device.
func callErrnos(call ledger.Call) []syscall.Errno {
	common := []syscall.Errno{syscall.EPERM, syscall.ENOMEM, syscall.EINVAL, syscall.EIO}
	switch call {
	case ledger.CallGetDeviceList:
		return append(common, syscall.ENOSYS)
	case ledger.CallOpenDevice:
		return append(common, syscall.EAGAIN) // of a device in error state
	case ledger.CallDestroyQP, ledger.CallDestroyCQ, ledger.CallDestroyAH, ledger.CallDeregMR, ledger.CallDeallocPD,
		ledger.CallDestroyCompChannel, ledger.CallCloseDevice:
		return append(common, syscall.EBUSY)
	case ledger.CallLoadLibrary, ledger.CallAckAsyncEvent, ledger.CallAckCQEvents:
		return nil // they return nothing
	}
	return common
}

// failure is a call of a device that fails once.
type failure struct {
	device string
	call   ledger.Call
	by     trigger
	errno  syscall.Errno
}

func allFailures() []failure {
	var all []failure
	for _, c := range calls {
		for _, errno := range callErrnos(c.call) {
			all = append(all, failure{deviceOf(c.call) + "." + unix.ErrnoName(errno), c.call, c.by, errno})
		}
	}
	return all
}

func (f failure) order(c *standin.Control) {
	c.FailErrno, c.FailStyle = int32(f.errno), standin.StyleManual
	if f.call == ledger.CallPollCQ {
		c.FailStyle = standin.StyleNegative // ibv_poll_cq(3): a negative value
	}
	c.FailCall = int32(f.call)
}

func testFailures(t *testing.T, tb *table) {
	all := allFailures()
	var devices, waiting []string
	for _, f := range all {
		devices = append(devices, f.device)
		if f.by != byItself {
			waiting = append(waiting, f.device)
		}
	}
	w := newWorld(t, devices...)
	for _, f := range all {
		if f.by == byItself {
			f.order(w.controls[f.device])
		}
	}
	w.start()
	w.awaitProbing(waiting...)
	for _, f := range all {
		if f.by != byItself {
			f.order(w.controls[f.device])
			w.pull(f.device, f.by)
		}
	}
	points := w.Await("all failures", time.Minute, func(points []rig.Point) bool {
		return !slices.ContainsFunc(all, func(f failure) bool {
			return w.controls[f.device].FailCall != 0 || !hasSettled(points, f)
		})
	})
	w.awaitLog()
	for _, f := range all {
		w.note(tb, points, f.device, callMarkdown(f.call)+" fails with "+unix.ErrnoName(f.errno))
		tb.merge(f.errno)
	}
	w.requireUndisturbed()
}

// hasSettled reports whether the device is probed, or waits for the operator to fix
// something. A device is not settled while its reason is removed because the
// library reported that: the plugin tries it again.
func hasSettled(points []rig.Point, f failure) bool {
	p := lastPoint(points, "rdma_device", f.device)
	if f.by == byRemoval {
		return p.Int("present") == 0
	}
	if probe := lastPoint(points, "rdma_cq_probe", f.device); probe.Int("errors") > 0 && probe.Text("status") == "" {
		return false // the count comes through shared memory, and before the status
	}
	return isProbing(points, f.device) || p.Int("open") == 0 && p.Text("reason") != "removed"
}
