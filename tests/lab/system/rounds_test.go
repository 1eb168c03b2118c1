//go:build guest

package system

import (
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// The link changes after each kill, before the successor runs. The successor must
// report the change.
func TestKilledProcessLeavesNothingAndSuccessorReportsGap(t *testing.T) {
	guest.RequireGuest(t)
	rounds := 30
	switch {
	case testing.Short():
		rounds = 3
	case guest.Driver() != "rxe" || guest.KernelHas(t, "6.12"):
		rounds = 6 // only the driver's part differs here
	}
	guest.AddDevice(t, device, guest.Driver(), netdev)
	k := rig.NewKiller(t, rig.Config{Plugin: fastProbe, Prefix: users[1].prefix}, rig.Seed(t), device)
	link, state := "up", "active"
	killed, byReopen := map[rig.Victim]int{}, 0
	for range rounds {
		if link == "up" {
			link, state = "down", "down"
		} else {
			link, state = "up", "active"
		}
		began := time.Now().UnixNano()
		victim := k.Round(func() { guest.IP(t, "link", "set", netdev, link) })
		points := k.Await("the link is reported "+link, 20*time.Second, func(points []rig.Point) bool {
			p := portPoint(points, device)
			return p.Time > began && p.Text("state_name") == state
		})
		killed[victim]++
		if victim != rig.TheWorker {
			continue // a new plugin does not have the state before the kill
		}
		change := rig.Last(points, "rdma_port_change", "device", device)
		if change.Time < began || change.Tags["state_to"] != state {
			t.Errorf("want the change in the gap to %s reported, got %v", state, change)
		}
		if change.Tags["witness"] == "reopen" {
			byReopen++
		}
	}
	k.Finish()
	if killed[rig.TheWorker] > 0 && byReopen == 0 {
		t.Errorf("no change in a gap had the witness reopen, of %d", killed[rig.TheWorker])
	}
	t.Logf("killed %v; open again, beyond the delay of a restart, after at most %v; %d changes found by reopening",
		killed, k.Worst, byReopen)
	k.Stop() // before the device is deleted
}
