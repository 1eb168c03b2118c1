//go:build guest

package system

import (
	"slices"
	"testing"
	"time"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/native"
	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// A queue pair that another program has connected through an address holds the index of that address. So the address
// comes back at another one.
func TestMovedGIDIsReported(t *testing.T) {
	guest.RequireDriver(t, "rxe")
	runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		a := &readded{device: device, netdev: netdev}
		address := a.address(t)
		index := a.index(t, address)
		r := start(quiet)
		r.Await("the GID table", 20*time.Second, func(p []rig.Point) bool {
			return rig.Last(p, "rdma_port", "device", device, "port", "1").Int("gids") > 0
		})
		connectQueuePair(t, index)
		readdAddresses(t, true, a)
		points := r.Await("the move, and the marker", 20*time.Second, func(p []rig.Point) bool {
			return rig.Last(p, "rdma_port", "device", device, "port", "1").Int("gid_moves") > 0 &&
				rig.Last(p, "rdma_gid_change", "action", "added").Text("gid") == "::ffff:"+marker
		})
		moved := rig.Select(points, "rdma_gid_change", "action", "moved")
		if len(moved) != 1 {
			t.Fatalf("want one move, got %v", moved)
		}
		m, now := moved[0], a.indexes[0]
		t.Logf("%v", m)
		if now == index || m.Int("index_from") != int64(index) || m.Int("index_to") != int64(now) || m.Int("own_probe") != 0 ||
			m.Text("gid") != "::ffff:"+address || m.Text("type") != "roce_v2" || m.Text("netdev") != netdev || m.Int("reopened") != 0 {
			t.Errorf("want %s moved %d > %d on %s, got %v", address, index, now, netdev, m)
		}
	})
}

// A pod has a macvlan device on top of the port's network device, so its addresses are in the port's GID table. Their indexes
// change with each pod. No program is affected, since those that used the old indexes ended with the previous pod.
func TestAddressOfAPodHasNotMoved(t *testing.T) {
	guest.RequireDriver(t, "rxe")
	runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		guest.Modprobe(t, "macvlan")
		guest.IP(t, "netns", "add", "pod")
		t.Cleanup(func() { guest.IP(t, "netns", "delete", "pod") })
		r := start(quiet)
		r.Await("the GID table", 20*time.Second, func(p []rig.Point) bool {
			return rig.Last(p, "rdma_port", "device", device, "port", "1").Int("gids") > 0
		})
		guest.IP(t, "link", "add", "net1", "link", netdev, "netns", "pod", "type", "macvlan", "mode", "bridge")
		inPod := func(args ...string) { guest.IP(t, append([]string{"-n", "pod"}, args...)...) }
		inPod("link", "set", "net1", "up")
		for _, step := range []struct{ change, address, action string }{
			{"add", "10.98.0.1", "added"}, {"del", "10.98.0.1", "removed"}, {"add", "10.98.0.2", "added"}, {"add", "10.98.0.1", "moved"},
		} {
			inPod("addr", step.change, step.address+"/24", "dev", "net1")
			r.Await(step.address+" of net1 is "+step.action, 20*time.Second, func(p []rig.Point) bool {
				return slices.ContainsFunc(rig.Select(p, "rdma_gid_change", "action", step.action), func(c rig.Point) bool {
					return c.Text("gid") == "::ffff:"+step.address && c.Text("netdev") == "net1"
				})
			})
		}
		before := rig.Last(r.Points(), "rdma_port", "device", device, "port", "1").Time
		points := r.Await("the counter", 20*time.Second, func(p []rig.Point) bool {
			return rig.Last(p, "rdma_port", "device", device, "port", "1").Time > before
		})
		if p := rig.Last(points, "rdma_port", "device", device, "port", "1"); p.Int("gid_moves") != 0 {
			t.Errorf("want no move of an address of the host, got %v", p)
		}
	})
}

// connectQueuePair connects a queue pair through one entry of the GID table and keeps it until the test ends.
func connectQueuePair(t *testing.T, index int) {
	t.Helper()
	led, f, err := ledger.New("another program")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	dev, err := native.New(sysfs.New("/sys")).Open(device, led)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(10 * time.Second); err != nil {
			t.Error(err)
		}
	})
	_, err = dev.NewProbe(verbs.ProbeConfig{
		ProbeKey: verbs.ProbeKey{Port: 1, Method: verbs.MethodRCWrite}, Timeout: time.Second, AckBatch: 1,
		GIDIndex: index, PKeyIndex: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAChangedMTUIsReported(t *testing.T) {
	runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		r := start(quiet)
		r.Await("the port", 20*time.Second, func(p []rig.Point) bool {
			return rig.Last(p, "rdma_port", "device", device, "port", "1").Int("up") == 1
		})
		guest.IP(t, "link", "set", netdev, "mtu", "4200")
		defer guest.IP(t, "link", "set", netdev, "mtu", "1500")
		points := r.Await("another MTU", 30*time.Second, func(p []rig.Point) bool {
			return len(rig.Select(p, "rdma_attr_change", "attr", "mtu")) > 0
		})
		c := rig.Last(points, "rdma_attr_change", "attr", "mtu")
		t.Logf("%v", c)
		if c.Text("from") != "1024" || c.Text("to") != "4096" || c.Tags["device"] != device || c.Tags["port"] != "1" {
			t.Errorf("want 1024 to 4096 on port 1 of %s, got %v", device, c)
		}
	})
}
