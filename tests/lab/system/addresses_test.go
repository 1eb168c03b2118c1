//go:build guest

package system

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// readds is how often a test deletes an address and adds it again.
const readds = 10

// What holds a port's GID keeps its slot in the table when the address goes, and an address that is deleted and added
// in one go, as network managers do it, then comes back at another index. A second device that the plugin leaves
// alone says what the index does without it.
func TestReaddedAddressKeepsItsIndex(t *testing.T) {
	guest.RequireDriver(t, "rxe")
	for _, method := range append([]string{"auto"}, methods()...) {
		t.Run(method, func(t *testing.T) {
			unprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
				watched := &readded{device: device, netdev: netdev}
				alone := &readded{device: "rdma1", netdev: "d1"}
				guest.AddDevice(t, alone.device, guest.Driver(), alone.netdev)
				r := start(probing(method, "-1"))
				for range readds {
					awaitRounds(r, 5)
					watched.once(t)
					alone.once(t)
				}
				t.Logf("%s: indexes with the plugin %v, without %v", method, watched.indexes, alone.indexes)
				if !slices.Equal(watched.indexes, alone.indexes) {
					t.Errorf("%s: want the indexes of a device without the plugin %v, got %v", method, alone.indexes, watched.indexes)
				}
				requireNoFailure(t, awaitRounds(r, 5))
			})
		})
	}
}

// probing is a configuration that watches device alone, with a fast probe of one method.
func probing(method, gidIndex string) string {
	return fmt.Sprintf(`[[inputs.rdma_events]]
  devices = [%q]
  [inputs.rdma_events.probe]
    interval = "100ms"
    timeout = "90ms"
    method = %q
    gid_index = %s
`, device, method, gidIndex)
}

// awaitRounds waits for n more successful rounds of whichever method.
func awaitRounds(r *rig.Telegraf, n int64) []rig.Point {
	before := successes(r.Points())
	return r.Await(fmt.Sprintf("%d more good rounds", n), 30*time.Second, func(p []rig.Point) bool {
		return successes(p) >= before+n
	})
}

func successes(points []rig.Point) int64 {
	var n int64
	for _, method := range []string{"rc_write", "ud_send", "flush"} {
		n += rig.Last(points, "rdma_cq_probe", "device", device, "method", method).Int("successes")
	}
	return n
}

// requireNoFailure fails the test when a round of any method did not go well.
func requireNoFailure(t *testing.T, points []rig.Point) {
	t.Helper()
	for _, method := range []string{"rc_write", "ud_send", "flush"} {
		p := rig.Last(points, "rdma_cq_probe", "device", device, "method", method)
		if p.Int("errors")+p.Int("lost_events")+p.Int("lost_completions") > 0 {
			t.Errorf("%s: want no round that failed, got %v", method, p.Fields)
		}
	}
}

// readded is a device whose address is deleted and added again, and where its GID was each time.
type readded struct {
	device, netdev string
	indexes        []int
}

// once deletes the address and adds it in one go. The kernel keeps its table of GIDs behind a queue: an address that
// is added after is there once what came before it is done, and being link local is chosen by no probe.
func (a *readded) once(t *testing.T) {
	t.Helper()
	const marker = "169.254.9.9"
	address := a.address(t)
	batch(t, a.netdev,
		"del "+address+"/24", "add "+address+"/24", "add "+marker+"/32")
	guest.Eventually(t, marker+" is a GID of "+a.device, 5*time.Second, func() bool { return a.index(t, marker) >= 0 })
	a.indexes = append(a.indexes, a.index(t, address))
	batch(t, a.netdev, "del "+marker+"/32")
	guest.Eventually(t, marker+" is no GID of "+a.device, 5*time.Second, func() bool { return a.index(t, marker) < 0 })
}

// address is the netdev's routable one, which AddDevice gave it.
func (a *readded) address(t *testing.T) string {
	t.Helper()
	for _, gid := range gids(t, a.device) {
		if gid.Is4In6() {
			return gid.Unmap().String()
		}
	}
	t.Fatalf("%s has no IPv4 address among its GIDs %v", a.device, gids(t, a.device))
	return ""
}

// index is where the GID of an address is, -1 if nowhere.
func (a *readded) index(t *testing.T, address string) int {
	t.Helper()
	return slices.Index(gids(t, a.device), netip.AddrFrom16(netip.MustParseAddr(address).As16()))
}

// gids is the table of a device's port 1, empty entries among it.
func gids(t *testing.T, device string) []netip.Addr {
	t.Helper()
	var all []netip.Addr
	for i := 0; i < 16; i++ {
		text, err := os.ReadFile(filepath.Join("/sys/class/infiniband", device, "ports/1/gids", fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, netip.MustParseAddr(strings.TrimSpace(string(text))))
	}
	return all
}

// batch has one process of ip change the addresses of a netdev, without a pause between.
func batch(t *testing.T, netdev string, changes ...string) {
	t.Helper()
	var lines strings.Builder
	for _, change := range changes {
		fmt.Fprintf(&lines, "addr %s dev %s\n", change, netdev)
	}
	path := filepath.Join(t.TempDir(), "batch")
	if err := os.WriteFile(path, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	guest.IP(t, "-batch", path)
}
