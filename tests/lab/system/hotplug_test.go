//go:build guest

package system

import (
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

func TestDeletedDeviceIsClosedAndReopened(t *testing.T) {
	forEachUser(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		r := start(fastProbe)
		awaitProbe(r, bestMethod(), 5)
		guest.Inject(t, device, guest.PKeyChange, 1, 7)
		r.Await("the counter", 20*time.Second, func(p []rig.Point) bool { return eventCounter(p, "1", "pkey_change") == 7 })

		began := time.Now()
		guest.DeleteLink(t, device)
		checkDuration(t, "rdma link delete beside the plugin", time.Since(began), time.Second)
		r.Await("the removal", 20*time.Second, func(p []rig.Point) bool {
			d := rig.Last(p, "rdma_device", "device", device)
			return d.Int("present") == 0 && d.Int("open") == 0 && d.Int("removals") == 1 &&
				d.Text("reason") == "deleted" && portPoint(p, device).Text("state_name") == "absent"
		})

		guest.AddLink(t, device, guest.Driver(), netdev)
		began = time.Now()
		r.Await("the device is open again", 30*time.Second, func(p []rig.Point) bool {
			d := rig.Last(p, "rdma_device", "device", device)
			return d.Int("open") == 1 && d.Int("opens") == 2
		})
		checkDuration(t, "open again after rdma link add", time.Since(began), 3*time.Second)

		guest.Inject(t, device, guest.PKeyChange, 1, 2)
		points := r.Await("the counter goes on", 20*time.Second, func(p []rig.Point) bool {
			return eventCounter(p, "1", "pkey_change") == 9
		})
		rig.RequireCountersNeverFall(t, points)
	})
}

// TestADeviceThatGoesWithItsWorkerIsNotTriedInVain kills the worker right before its device is deleted, so that the
// worker cannot report the removal.
func TestADeviceThatGoesWithItsWorkerIsNotTriedInVain(t *testing.T) {
	runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		r := start(quiet)
		killProcess(t, r.Workers()[0])
		guest.DeleteLink(t, device)
		points := r.Await("the plugin stops its tries to open the device", 20*time.Second, func(p []rig.Point) bool {
			d := rig.Last(p, "rdma_device", "device", device)
			return d.Int("present") == 0 && d.Text("worker_state") == "stopped"
		})
		t.Logf("%d worker restarts until then", rig.Last(points, "rdma_device", "device", device).Int("worker_restarts"))

		guest.AddLink(t, device, guest.Driver(), netdev)
		began := time.Now()
		points = r.Await("the device is open again", 30*time.Second, func(p []rig.Point) bool {
			return rig.Last(p, "rdma_device", "device", device).Int("open") == 1
		})
		checkDuration(t, "open again after rdma link add", time.Since(began), 3*time.Second)
		rig.RequireCountersNeverFall(t, points)
	})
}
