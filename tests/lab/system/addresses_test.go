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

// readds is the number of times that a test deletes an address and adds it again.
const readds = 10

// readdCount returns the number of times that a test replaces an address by a new one.
func readdCount() int {
	if testing.Short() {
		return 3
	}
	return readds
}

// A process that holds a port's GID keeps the GID's slot in the table after the address is deleted. If the plugin did so,
// an address that is deleted and added in one batch, as network managers do it, would come back at another index. The
// test compares the index with that of a second device, which the plugin does not open.
func TestReaddedAddressKeepsItsIndex(t *testing.T) {
	guest.RequireDriver(t, "rxe")
	for _, method := range testedMethods() {
		t.Run(method, func(t *testing.T) {
			runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
				watched := &readded{device: device, netdev: netdev}
				alone := &readded{device: "rdma1", netdev: "d1"}
				guest.AddDevice(t, alone.device, guest.Driver(), alone.netdev)
				r := start(probeConfig(method, "-1"))
				at, moves := watched.index(t, watched.address(t)), int64(0)
				for i := range readds {
					awaitGoodRounds(r, 2)
					readdAddresses(t, i%2 == 0, watched, alone)
					if now := watched.indexes[i]; now != at {
						at, moves = now, moves+1
					}
				}
				t.Logf("%s: indexes with the plugin %v, without %v", method, watched.indexes, alone.indexes)
				if !slices.Equal(watched.indexes, alone.indexes) {
					t.Errorf("%s: want the indexes of a device without the plugin %v, got %v", method, alone.indexes, watched.indexes)
				}
				points := awaitGoodRounds(r, 2)
				requireNoFailure(t, points)
				if p := rig.Last(points, "rdma_port", "device", device, "port", "1"); p.Int("gid_moves") != moves {
					t.Errorf("%s: want the %d moves that the table had, got %v", method, moves, p)
				}
			})
		})
	}
}

// testedMethods returns the probe methods to test. auto selects ud_send on RoCE.
func testedMethods() []string {
	if testing.Short() {
		return []string{"auto"}
	}
	return append([]string{"auto"}, probeMethods()...)
}

// Another address may get the index that a probe has chosen before the probe notices the change.
func TestAnotherAddressAtTheIndexFailsNoRound(t *testing.T) {
	guest.RequireDriver(t, "rxe")
	runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		a := &readded{device: device, netdev: netdev}
		r := start(probeConfig("auto", "-1"))
		for i := range readdCount() {
			awaitGoodRounds(r, 2)
			before, after := a.address(t), fmt.Sprintf("10.99.%d.1", i)
			index := a.index(t, before)
			changeAddresses(t, "del "+before+"/24 dev "+netdev, "add "+after+"/24 dev "+netdev)
			guest.Eventually(t, after+" is a GID", 20*time.Second, func() bool { return a.index(t, after) >= 0 })
			if got := a.index(t, after); got != index {
				t.Errorf("want the new address at index %d, which the old one left, got %d", index, got)
			}
		}
		requireOnlyMethod(t, awaitGoodRounds(r, 2), "ud_send")
	})
}

// The kernel derives the default GID from the MAC address. If a connection held the GID, it would be missing after a
// change of the address.
func TestChangedMACAddressKeepsTheDefaultGID(t *testing.T) {
	guest.RequireDriver(t, "rxe")
	runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		r := start(probeConfig("auto", "-1"))
		for i := range readdCount() {
			awaitGoodRounds(r, 2)
			guest.IP(t, "link", "set", netdev, "address", fmt.Sprintf("02:00:00:00:00:%02x", i+1))
			want := netip.MustParseAddr(fmt.Sprintf("fe80::ff:fe00:%x", i+1))
			guest.Eventually(t, fmt.Sprintf("the default GID is %s", want), 20*time.Second, func() bool { return gidTable(t, device)[0] == want })
		}
		requireOnlyMethod(t, awaitGoodRounds(r, 2), "ud_send")
	})
}

// requireOnlyMethod fails the test if a round failed or was of another method.
func requireOnlyMethod(t *testing.T, points []rig.Point, method string) {
	t.Helper()
	requireNoFailure(t, points)
	for _, p := range rig.Select(points, "rdma_cq_probe", "device", device) {
		if p.Tags["method"] != method && p.Int("rounds") > 0 {
			t.Errorf("want rounds of %s alone, got %v", method, p)
		}
	}
	p := rig.Last(points, "rdma_cq_probe", "device", device, "method", method)
	t.Logf("%s: rounds %d, errors %d, lost completions %d, resent %d", method, p.Int("rounds"), p.Int("errors"), p.Int("lost_completions"), p.Int("resent"))
}

// probeConfig returns a configuration that watches only device, with the default probe of one method. With a shorter
// interval the probe would choose a GID again sooner after the address is deleted, and hold the old one for a shorter
// time.
func probeConfig(method, gidIndex string) string {
	return fmt.Sprintf(`[[inputs.rdma_events]]
  devices = [%q]
  [inputs.rdma_events.probe]
    method = %q
    gid_index = %s
`, device, method, gidIndex)
}

// awaitGoodRounds waits for n more successful rounds of any method.
func awaitGoodRounds(r *rig.Telegraf, n int64) []rig.Point {
	before := probeSuccesses(r.Points())
	return r.Await(fmt.Sprintf("%d more good rounds", n), 30*time.Second, func(p []rig.Point) bool {
		return probeSuccesses(p) >= before+n
	})
}

func probeSuccesses(points []rig.Point) int64 {
	var n int64
	for _, method := range []string{"rc_write", "ud_send", "flush"} {
		n += rig.Last(points, "rdma_cq_probe", "device", device, "method", method).Int("successes")
	}
	return n
}

// requireNoFailure fails the test if a round of any method failed.
func requireNoFailure(t *testing.T, points []rig.Point) {
	t.Helper()
	for _, method := range []string{"rc_write", "ud_send", "flush"} {
		p := rig.Last(points, "rdma_cq_probe", "device", device, "method", method)
		if p.Int("errors")+p.Int("lost_events")+p.Int("lost_completions") > 0 {
			t.Errorf("%s: want no round that failed, got %v", method, p.Fields)
		}
	}
}

// readded is a device whose address is deleted and added again, and the index of its GID after each time.
type readded struct {
	device, netdev string
	indexes        []int
}

// marker is an address that each re-add adds or deletes. It is link local, so no probe chooses it. The kernel changes
// its table of GIDs by a queue: once the marker is added or deleted there, all earlier changes are done.
const marker = "169.254.9.9"

// readdAddresses deletes the address of each device and adds it again, all in one batch, one device after the other.
func readdAddresses(t *testing.T, appears bool, devices ...*readded) {
	t.Helper()
	change := map[bool]string{true: "add", false: "del"}[appears]
	var before, lines []string
	for _, a := range devices {
		address := a.address(t)
		before = append(before, address)
		for _, c := range []string{"del " + address + "/24", "add " + address + "/24", change + " " + marker + "/32"} {
			lines = append(lines, c+" dev "+a.netdev)
		}
	}
	changeAddresses(t, lines...)
	for i, a := range devices {
		guest.Eventually(t, "the table of "+a.device+" is up to date", 20*time.Second, func() bool {
			return (a.index(t, marker) >= 0) == appears
		})
		a.indexes = append(a.indexes, a.index(t, before[i]))
	}
}

// address returns the netdev's routable IPv4 address, which AddDevice has set.
func (a *readded) address(t *testing.T) string {
	t.Helper()
	for _, gid := range gidTable(t, a.device) {
		if gid.Is4In6() && !gid.Unmap().IsLinkLocalUnicast() {
			return gid.Unmap().String()
		}
	}
	t.Fatalf("%s has no IPv4 address among its GIDs %v", a.device, gidTable(t, a.device))
	return ""
}

// index returns the index of an address's GID, or -1 if there is none.
func (a *readded) index(t *testing.T, address string) int {
	t.Helper()
	return slices.Index(gidTable(t, a.device), netip.AddrFrom16(netip.MustParseAddr(address).As16()))
}

// gidTable returns the GID table of a device's port 1, including empty entries.
func gidTable(t *testing.T, device string) []netip.Addr {
	t.Helper()
	var all []netip.Addr
	for i := range 16 {
		text, err := os.ReadFile(filepath.Join("/sys/class/infiniband", device, "ports/1/gids", fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, netip.MustParseAddr(strings.TrimSpace(string(text))))
	}
	return all
}

// changeAddresses changes addresses with one ip process, without a pause between the changes.
func changeAddresses(t *testing.T, lines ...string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "batch")
	if err := os.WriteFile(path, []byte("addr "+strings.Join(lines, "\naddr ")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	guest.IP(t, "-batch", path)
}
