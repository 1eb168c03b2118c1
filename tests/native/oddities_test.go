package native

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/tests/rig"
)

// signals are other signals of which a process can die in a library; 0 is an exit.
var signals = []syscall.Signal{unix.SIGABRT, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGKILL, 0}

// victimName returns the name of the device whose worker dies of s.
func victimName(s syscall.Signal) string { return "dies_of_" + strings.ToLower(nameOf(s)) }

func nameOf(s syscall.Signal) string {
	if s == 0 {
		return "exit"
	}
	return unix.SignalName(s)
}

// chatter is the number of bytes that the chatty library prints at each call.
const chatter = 64 << 10

func testOddities(t *testing.T, tb *table) {
	devices := []string{"ack_lost", "chatty", "strange"}
	for _, s := range signals {
		devices = append(devices, victimName(s))
	}
	w := newWorld(t, devices...)
	for _, s := range signals {
		c := w.controls[victimName(s)]
		c.CrashCall, c.CrashSignal = int32(ledger.CallPostSend), int32(s)
	}
	w.controls["ack_lost"].IgnoreAcks = 1
	w.controls["chatty"].Flood = chatter
	w.start()
	w.awaitProbing(devices...)

	w.deaths(tb)
	w.lostAcknowledgement(tb)
	w.strangeEvents(tb)
	w.chatter(tb)
	w.requireUndisturbed()
	w.stopInTime(tb)
}

// awaitRestart waits until each device has another worker and is probed, and until
// the log is complete.
func (w *world) awaitRestart(devices ...string) []rig.Point {
	w.t.Helper()
	w.Await("other workers", time.Minute, func(points []rig.Point) bool {
		return !slices.ContainsFunc(devices, func(d string) bool {
			return lastPoint(points, "rdma_device", d).Int("worker_restarts") != 1 || !isProbing(points, d)
		})
	})
	w.awaitLog()
	return w.Points()
}

func (w *world) deaths(tb *table) {
	var victims []string
	for _, s := range signals {
		victims = append(victims, victimName(s))
	}
	points := w.awaitRestart(victims...)
	for _, s := range signals {
		device, fault := victimName(s), nameOf(s)+" in `ibv_post_send`"
		if s == 0 {
			fault = "`ibv_post_send` exits with status 3"
		}
		w.note(tb, points, device, fault)
	}
}

// lostAcknowledgement makes the worker destroy an object. That call waits for the
// acknowledgement of all events that were read, and this library loses them.
func (w *world) lostAcknowledgement(tb *table) {
	const device = "ack_lost"
	w.pull(device, byRenewal)
	points := w.awaitRestart(device)
	w.note(tb, points, device, "`ibv_destroy_cq` waits for an acknowledgement that the library lost")
}

// reportedCount returns the sum of the counts in a device's points about an event.
func reportedCount(points []rig.Point, device, event string) int64 {
	return rig.Sum(rig.Select(points, "rdma_async_event", "device", device, "event", event), "count")
}

// strangeEvents injects events that no release of this project has a name for, and
// two that only some hardware raises.
func (w *world) strangeEvents(tb *table) {
	const device = "strange"
	c := w.controls[device]
	want := map[string]int64{"wq_fatal": 1, "device_speed_change": 1, "unknown_21": 2, "unknown_77": 1, "unknown_1073741824": 1}
	w.inject(device, int32(verbs.EventWQFatal), c.WQ)
	w.inject(device, int32(verbs.EventDeviceSpeedChange), 0)
	for _, typ := range []int32{21, 21, 77, 1 << 30} {
		w.inject(device, typ, 0x7f0012345678) // a pointer to an object that the library does not have
	}
	points := w.Await("the events", 20*time.Second, func(points []rig.Point) bool {
		// Events that belong to no port are in a series without the tag port.
		p := rig.Last(points, "rdma_async", "device", device, "port", "")
		for field, n := range want {
			if p.Int(field) != n || reportedCount(points, device, field) < n {
				return false
			}
		}
		return p.Int("read") == 6 && p.Int("acked") == 6 && p.Int("unacked") == 0
	})
	for event, n := range want {
		if got := reportedCount(points, device, event); got != n {
			w.t.Errorf("%s: want a count of %d, got %d", event, n, got)
		}
	}
	if broken := c.BrokenRule(); broken != "" {
		w.t.Errorf("a rule of the library was broken: %s", broken)
	}
	tb.rows = append(tb.rows, row{
		"events of unknown types", describeOutcome(points, device),
		[]string{"`rdma_async` and `rdma_async_event` as `unknown_21` and so on, acknowledged like others"}, w.t.Name(),
	})
}

// chatter requires that the library's lines neither fail a round nor flood the log;
// the lines themselves may be left out.
func (w *world) chatter(tb *table) {
	const device, rounds, callsPerRound = "chatty", 20, 5
	points := w.Await("rounds of the chatty library", time.Minute, func(points []rig.Point) bool {
		return lastPoint(points, "rdma_cq_probe", device).Int("successes") >= rounds
	})
	printed := lastPoint(points, "rdma_cq_probe", device).Int("rounds") * callsPerRound * chatter
	var logged, lines int
	for _, line := range w.complaints(device) {
		if strings.Contains(line, "worker output") || strings.Contains(line, "of worker output dropped") {
			logged += len(line)
			lines++
		}
	}
	w.t.Logf("printed at least %d bytes, logged %d lines of %d bytes", printed, lines, logged)
	if printed < 4<<20 || lines < 5 || lines > 200 || logged > 64<<10 {
		w.t.Errorf("want some lines of the flood in the log and not many, got %d of %d bytes, printed %d", lines, logged, printed)
	}
	tb.rows = append(tb.rows, row{
		"megabytes printed to stdout and stderr", describeOutcome(points, device),
		[]string{"20 lines at once and then one in a second, each cut at 1 KiB, and how many were left out"}, w.t.Name(),
	})
}

// stopInTime stops Telegraf while a call holds the device, and requires that no
// process is left that could hold it.
func (w *world) stopInTime(tb *table) {
	const device = "strange"
	w.controls[device].HangCall = int32(ledger.CallDestroyQP)
	plugin := rig.Children(w.t, w.PID())
	processes := append(plugin, w.Workers()...)
	began := time.Now()
	w.Stop()
	const promised = 5 * time.Second // how long Telegraf waits for the program of execd
	if took := time.Since(began); took > promised {
		w.t.Errorf("want an end within %v, got %v", promised, took)
	}
	for _, pid := range processes {
		if rig.Running(pid) {
			w.t.Errorf("process %d is left", pid)
		}
	}
	if w.controls[device].HangCall != 0 {
		w.t.Error("the call was not made")
	}
	tb.rows = append(tb.rows, row{
		"`ibv_destroy_qp` never returns as Telegraf stops", "the worker exits, which frees the device; all end within 5 s", nil, w.t.Name(),
	})
}
