package native

import (
	"slices"
	"strings"
	"testing"
	"time"

	"rdma_events/internal/conformance/standin"
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/tests/rig"
)

// driven is a device that behaves as with one driver.
type driven struct {
	standin.Profile
	device string
}

// reported are the profiles that differ in the host's reports about their devices.
var reported = []string{"mlx5", "mlx4", "bnxt_re", "efa", "qedr"}

// TestDriversAreReportedAsTheyAre runs a host with a device of each of some profiles.
// All of them enter their error state and are removed. One more device is in that
// state when the plugin starts, and leaves it.
func TestDriversAreReportedAsTheyAre(t *testing.T) {
	t.Parallel()
	var all []driven
	for _, name := range reported {
		p, ok := standin.FindProfile(name)
		if !ok {
			t.Fatalf("no profile %s", name)
		}
		all = append(all, driven{p, name + "_0"})
	}
	recovering := []driven{{all[0].Profile, "recovering0"}}
	w := newDrivers(t, slices.Concat(all, recovering))
	w.order(recovering, func(d driven) { w.controls[d.device].Dead = 1 })
	w.start()
	w.awaitEach("the recovering", recovering, func(points []rig.Point, d driven) bool {
		info := lastPoint(points, "rdma_device", d.device)
		return info.Text("reason") == d.Seen.Reopen && info.Text("worker_state") == "backing_off"
	})
	w.order(recovering, func(d driven) { w.controls[d.device].Dead = 0 })
	w.awaitEach("all drivers", slices.Concat(all, recovering), w.isProbed)

	w.order(all, func(d driven) {
		if d.Fatal >= 0 {
			w.inject(d.device, int32(verbs.EventDeviceFatal), uint64(d.Fatal))
		}
		w.controls[d.device].Dead = 1
	})
	w.awaitEach("the error state", all, isDead)
	w.unregister(all)
	w.requireUndisturbed()
}

func newDrivers(t *testing.T, all []driven) *world {
	t.Helper()
	var devices []string
	for _, d := range all {
		devices = append(devices, d.device)
	}
	w := newWorld(t, devices...)
	w.method, w.interval = "auto", "1s" // more rounds a minute would need too many address handles for some
	w.order(all, func(d driven) { w.take(d.device, d.Profile) })
	return w
}

func (w *world) order(all []driven, f func(driven)) {
	for _, d := range all {
		f(d)
	}
}

// awaitEach waits until the points fulfil a condition for each device.
func (w *world) awaitEach(what string, all []driven, is func([]rig.Point, driven) bool) {
	w.t.Helper()
	w.Await(what, time.Minute, func(points []rig.Point) bool {
		return !slices.ContainsFunc(all, func(d driven) bool { return !is(points, d) })
	})
}

// isProbed reports whether a device was opened once and is probed as its driver
// allows. If the driver allows no probe, a line of the log must state that.
func (w *world) isProbed(points []rig.Point, d driven) bool {
	info, probe := lastPoint(points, "rdma_device", d.device), lastPoint(points, "rdma_cq_probe", d.device)
	if info.Int("open") != 1 || info.Text("reason") != "ok" || info.Int("opens") != 1 {
		return false
	}
	if d.Seen.Up.Method == verbs.MethodNone {
		return slices.ContainsFunc(w.complaints(d.device), func(line string) bool {
			return strings.Contains(line, "probe unavailable, port 1")
		})
	}
	return probe.Tags["method"] == d.Seen.Up.Method.String() && probe.Int("ok") == 1
}

// isDead reports whether the points show the effects of a device's error state.
func isDead(points []rig.Point, d driven) bool {
	info, probe := lastPoint(points, "rdma_device", d.device), lastPoint(points, "rdma_cq_probe", d.device)
	events := rig.Last(points, "rdma_async", "device", d.device, "port", "")
	switch {
	case d.Seen.Dead != "":
		return info.Text("reason") == d.Seen.Dead
	case info.Text("reason") != "ok", d.Fatal >= 0 && events.Int("device_fatal") != 1:
		return false
	case d.Seen.Up.Method == verbs.MethodNone:
		return true
	}
	return probe.Int("lost_completions")+probe.Int("errors") > 0
}

// unregister removes devices, their nodes first, as the kernel does. It requires that
// their workers close them by themselves: with some drivers a removal waits for that.
func (w *world) unregister(all []driven) {
	w.t.Helper()
	w.order(all, func(d driven) {
		w.remove(d.device)
		if d.Disassociates {
			w.controls[d.device].Disassociate = 1
		}
	})
	w.awaitEach("the removal", all, func(points []rig.Point, d driven) bool {
		info, calls := lastPoint(points, "rdma_device", d.device), &w.controls[d.device].Calls
		return info.Text("reason") == "removed" && info.Int("open") == 0 && calls[ledger.CallOpenDevice] == calls[ledger.CallCloseDevice]
	})
	points := w.Points()
	w.order(all, func(d driven) {
		if info := lastPoint(points, "rdma_device", d.device); info.Int("crashes") != 0 {
			w.t.Errorf("%s: want no crash, got %v", d.device, info.Fields)
		}
		if broken := w.controls[d.device].BrokenRule(); broken != "" {
			w.t.Errorf("%s: a rule of the library was broken: %s", d.device, broken)
		}
	})
}
