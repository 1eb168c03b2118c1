//go:build guest

package system

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// peer is the other end of netdev where that is a veth.
const peer = "p0"

// onVeth runs a test as the user with fewer rights, with a device whose link its peer can take down.
func onVeth(t *testing.T, test func(t *testing.T, start func(plugin string) *rig.Telegraf)) {
	guest.RequireGuest(t)
	guest.AddDeviceOnVeth(t, device, guest.Driver(), netdev, peer)
	test(t, func(plugin string) *rig.Telegraf { return startAs(t, users[1].prefix, plugin, "250ms") })
}

// allOfEthtool is quiet with the statistics of network devices.
const allOfEthtool = quiet + `  [inputs.rdma_events.evidence]
    ethtool = "all"
`

// evidencePoints returns the evidence about a trigger.
func evidencePoints(points []rig.Point, trigger string) []rig.Point {
	return rig.Select(points, "rdma_evidence", "device", device, "trigger", trigger)
}

// awaitEvidence waits for n points of evidence about a trigger, and returns them. The pace of snapshots may hold one up
// for a minute.
func awaitEvidence(t *testing.T, r *rig.Telegraf, trigger string, n int) []rig.Point {
	t.Helper()
	points := evidencePoints(r.Await(fmt.Sprintf("%d times evidence of %s", n, trigger), 90*time.Second, func(p []rig.Point) bool {
		return len(evidencePoints(p, trigger)) >= n
	}), trigger)
	for _, p := range points[n-1:] {
		t.Logf("%s %v", p.Series(), p.Fields)
	}
	return points
}

// awaitGIDs waits until the plugin has read the GID table for the first time, and with that every port's state.
func awaitGIDs(r *rig.Telegraf) {
	r.Await("the GID table", 20*time.Second, func(p []rig.Point) bool { return portPoint(p, device).Int("gids") > 0 })
}

func requireCause(t *testing.T, p rig.Point, want string) {
	t.Helper()
	if got := p.Text("cause"); got != want {
		t.Errorf("want the cause %q, got %q: %s %v", want, got, p.Series(), p.Fields)
	}
}

// requireAsIP requires that evidence has the network device as `ip link` prints it.
func requireAsIP(t *testing.T, p rig.Point) {
	t.Helper()
	ip := guest.NetdevState(t, netdev)
	want := map[string]int64{"admin_up": 0, "carrier": -1, "carrier_changes": ip.CarrierChanges}
	if ip.Up { // the kernel knows no carrier otherwise
		want["admin_up"], want["carrier"] = 1, 0
		if ip.Carrier {
			want["carrier"] = 1
		}
	}
	for field, n := range want {
		if got := p.Int(field); got != n {
			t.Errorf("want %s %d as of ip link %+v, got %d", field, n, ip, got)
		}
	}
}

func requireLink(t *testing.T, state, physical string) {
	t.Helper()
	if s, p := guest.LinkState(t, device, 1); s != state || p != physical {
		t.Errorf("want rdma link to show %s and %s, got %s and %s", state, physical, s, p)
	}
}

func TestALinkThatIsSetDownIsExplained(t *testing.T) {
	guest.RequireDriver(t, "rxe")
	forEachUser(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		r := start(quiet)
		awaitGIDs(r)
		for n := range 2 {
			guest.IP(t, "link", "set", netdev, "down")
			p := awaitEvidence(t, r, "port_err", n+1)[n]
			requireCause(t, p, "admin_down")
			requireAsIP(t, p)
			requireLink(t, "down", "disabled")
			guest.IP(t, "link", "set", netdev, "up")
			r.Await("the link is up", 20*time.Second, func(p []rig.Point) bool { return portPoint(p, device).Int("up") == 1 })
		}
		if p := evidencePoints(r.Points(), "port_active"); len(p) > 0 {
			t.Errorf("want no evidence of a link that comes up, got %v", p)
		}
	})
}

// The peer's link is what a cable, a switch and the other host are to hardware, which is more than the driver of a veth
// knows. The test module gives it the word of a driver that knows.
func TestALinkWithoutCarrierIsExplained(t *testing.T) {
	guest.RequireDriver(t, "rxe")
	onVeth(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		r := start(quiet)
		awaitGIDs(r)
		lose := func(n int, cause, state string) {
			t.Helper()
			guest.IP(t, "link", "set", peer, "down")
			p := awaitEvidence(t, r, "port_err", n)[n-1]
			requireCause(t, p, cause)
			requireAsIP(t, p)
			requireLink(t, "down", "polling")
			if p.Text("ext_state") != state || p.Text("left_out") != "" {
				t.Errorf("want the extended state %q, and nothing left out, got %v", state, p)
			}
			guest.IP(t, "link", "set", peer, "up")
			r.Await("the link is up", 20*time.Second, func(p []rig.Point) bool { return portPoint(p, device).Int("up") == 1 })
		}
		lose(1, "no_carrier", "")
		guest.GiveReason(t, netdev, guest.NoCable, 0)
		lose(2, "no_cable", "no_cable")
		guest.GiveReason(t, netdev, guest.Overheat, 0)
		lose(3, "overheat", "overheat")
	})
}

func TestAddressesThatComeAndGoAreExplained(t *testing.T) {
	guest.RequireDriver(t, "rxe")
	runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		const address = "10.88.0.1"
		r := start(quiet)
		awaitGIDs(r)
		a := &readded{device: device, netdev: netdev}
		for n, action := range []string{"add", "del"} {
			guest.IP(t, "addr", action, address+"/24", "dev", netdev)
			requireCause(t, awaitEvidence(t, r, "gid_change", n+1)[n], "address_change")
			if there := a.index(t, address) >= 0; there != (action == "add") {
				t.Errorf("want the GID of %s after addr %s, got %v", address, action, there)
			}
		}
	})
}

func TestAChangedMACAddressIsExplained(t *testing.T) {
	guest.RequireDriver(t, "rxe")
	runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		r := start(quiet)
		awaitGIDs(r)
		before := gidTable(t, device)[0]
		guest.IP(t, "link", "set", netdev, "address", "02:00:00:00:00:07")
		requireCause(t, awaitEvidence(t, r, "gid_change", 1)[0], "mac_change")
		if now := gidTable(t, device)[0]; now == before {
			t.Errorf("want another default GID, got %s again", now)
		}
	})
}

// A VLAN brings a default GID of its own, and takes it along. Neither is a change of an address that was there.
func TestAVLANThatComesOrGoesGivesNoCause(t *testing.T) {
	guest.RequireDriver(t, "rxe")
	runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		guest.Modprobe(t, "8021q")
		r := start(quiet)
		awaitGIDs(r)
		before := guidsOf(t)
		guest.IP(t, "link", "add", "link", netdev, "name", "v7", "type", "vlan", "id", "7")
		guest.IP(t, "link", "set", "v7", "up")
		seen := awaitEvidence(t, r, "gid_change", 1)
		if now := guidsOf(t); now <= before {
			t.Errorf("want more GIDs than %d with a VLAN, got %d", before, now)
		}
		guest.IP(t, "link", "delete", "v7")
		for _, p := range awaitEvidence(t, r, "gid_change", len(seen)+1) {
			requireCause(t, p, "")
		}
	})
}

// guidsOf returns the number of GIDs in the table of the device.
func guidsOf(t *testing.T) int {
	t.Helper()
	n := 0
	for _, gid := range gidTable(t, device) {
		if !gid.IsUnspecified() {
			n++
		}
	}
	return n
}

func TestARemovedDeviceIsExplained(t *testing.T) {
	for _, c := range []struct {
		name   string
		remove func(*testing.T)
	}{
		{"rdma link delete", func(t *testing.T) { guest.DeleteLink(t, device) }},
		{"ip link delete", func(t *testing.T) { guest.IP(t, "link", "delete", netdev) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
				r := start(quiet)
				awaitGIDs(r)
				c.remove(t)
				p := awaitEvidence(t, r, "removed", 1)[0]
				requireCause(t, p, "driver_removed")
				if _, found := p.Tags["port"]; found || p.Text("left_out") == "" {
					t.Errorf("want it to be about the device, with nothing read, got %v", p)
				}
				guest.Eventually(t, "the device is gone", 10*time.Second, func() bool { return !guest.HasDevice(device) })
				awaitAbsent(r, device, "deleted", 1)
				for _, p := range evidencePoints(r.Points(), "port_err") {
					requireCause(t, p, "driver_removed")
				}
			})
		})
	}
}

// The kernel's RTNL lock is not to be taken for a device that has just failed.
func TestAFatalDeviceIsExplained(t *testing.T) {
	runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		r := start(allOfEthtool)
		awaitGIDs(r)
		guest.Inject(t, device, guest.DeviceFatal, 1, 1)
		p := awaitEvidence(t, r, "device_fatal", 1)[0]
		requireCause(t, p, "device_fatal")
		if _, found := p.Tags["port"]; found {
			t.Errorf("want it to be about the device, got %v", p)
		}
		if want := "ethtool: device_fatal was less than 10s ago"; guest.Driver() == "rxe" && !strings.Contains(p.Text("left_out"), want) {
			t.Errorf("want %q left out, got %v", want, p)
		}
		r.Await("one fatal of a device that is open all the time", 60*time.Second, func(p []rig.Point) bool {
			d := rig.Last(p, "rdma_device", "device", device)
			return d.Int("open") == 1 && d.Int("opens") == 1 && d.Int("fatals") == 1
		})
	})
}

// The worker has no capability, and is confined. A veth counts what an XDP program drops.
func TestStatisticsOfTheInterfaceAreReadWithoutRights(t *testing.T) {
	const frames = 137
	guest.RequireDriver(t, "rxe")
	onVeth(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		guest.WithoutIPv6(t, peer) // its search for neighbours is dropped too
		guest.DropFrames(t, netdev)
		r := start(allOfEthtool)
		awaitGIDs(r)
		guest.Inject(t, device, guest.SMChange, 1, 1)
		awaitEvidence(t, r, "sm_change", 1)
		guest.SendFrames(t, peer, frames)
		guest.Inject(t, device, guest.SMChange, 1, 1)
		p := awaitEvidence(t, r, "sm_change", 2)[1]
		moved := strings.Split(p.Text("top"), ", ")
		if want := fmt.Sprintf("rx_queue_0_xdp_drops +%d", frames); !slices.Contains(moved, want) {
			t.Errorf("want %q among the counters that moved, got %v", want, p)
		}
		if p.Text("left_out") != "" || p.Text("cause") != "" {
			t.Errorf("want nothing left out and no cause, got %v", p)
		}
	})
}
