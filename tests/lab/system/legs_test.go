//go:build guest

package system

import (
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// addBond makes a bond of two veths, active-backup, and returns the other ends of the veths. A leg has a carrier for as long
// as its other end is up.
func addBond(t *testing.T, bond string) (ends []string) {
	t.Helper()
	guest.Modprobe(t, "veth", "bonding")
	guest.IP(t, "link", "add", bond, "type", "bond", "mode", "active-backup", "miimon", "100")
	t.Cleanup(func() { guest.IP(t, "link", "delete", bond) })
	for _, leg := range []string{"leg1", "leg2"} {
		end := leg + "end"
		guest.IP(t, "link", "add", leg, "type", "veth", "peer", "name", end)
		t.Cleanup(func() { guest.IP(t, "link", "delete", leg) })
		guest.IP(t, "link", "set", leg, "master", bond)
		guest.IP(t, "link", "set", end, "up")
		ends = append(ends, end)
	}
	guest.IP(t, "addr", "add", "10.88.1.1/24", "dev", bond)
	guest.IP(t, "link", "set", bond, "up")
	return ends
}

func TestTheLegsOfABondBelowAPortAreCounted(t *testing.T) {
	guest.RequireDriver(t, "rxe")
	ends := addBond(t, netdev)
	guest.AddDeviceOn(t, device, "rxe", netdev)
	r := startAs(t, users[1].prefix, quiet, "250ms")
	legsUp := func(what string, want int64) {
		t.Helper()
		points := r.Await(what, 30*time.Second, func(p []rig.Point) bool {
			v := portPoint(p, device)
			return v.Int("legs") == 2 && v.Fields["legs_up"] != nil && v.Int("legs_up") == want
		})
		if want > 0 && portPoint(points, device).Int("up") != 1 {
			t.Errorf("%s: the port is not up: %v", what, portPoint(points, device))
		}
	}
	legsUp("both legs", 2)
	guest.IP(t, "link", "set", ends[1], "down")
	legsUp("one leg lost", 1)
	guest.IP(t, "link", "set", ends[1], "up")
	legsUp("it is back", 2)
	guest.IP(t, "link", "set", ends[0], "down")
	guest.IP(t, "link", "set", ends[1], "down")
	legsUp("both lost", 0)
}
