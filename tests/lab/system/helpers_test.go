//go:build guest

package system

import (
	"cmp"
	"os"
	"slices"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// device and netdev are the names of the device and the netdev in most tests.
const (
	device = "rdma0"
	netdev = "d0"
)

// probeMethods returns the methods that the probe can use on a port that is up. The
// first one is the method that "auto" selects.
func probeMethods() []string {
	if guest.Driver() == "siw" {
		return []string{"flush"}
	}
	return []string{"ud_send", "rc_write", "flush"}
}

func bestMethod() string { return probeMethods()[0] }

type user struct {
	name   string
	prefix []string
}

// users are the users for whom the plugin must work alike: root, and a user without
// any capability who may lock 64 KiB of memory.
var users = []user{
	{"root", nil},
	{"unprivileged", []string{
		"prlimit", "--memlock=65536:65536", "--",
		"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
		"--bounding-set=-all", "--inh-caps=-all", "--",
	}},
}

// testedUsers returns the users that a run tests. -short leaves out root: a function that works with fewer rights
// works for root too.
func testedUsers() []user {
	if testing.Short() {
		return users[1:]
	}
	return users
}

// forEachUser runs a test with a new device as each of the users served. start
// starts Telegraf with a plugin configuration and returns once the device is open
// and its counters are there.
func forEachUser(t *testing.T, test func(t *testing.T, start func(plugin string) *rig.Telegraf)) {
	for _, u := range testedUsers() {
		t.Run(u.name, func(t *testing.T) { asUser(t, u.prefix, test) })
	}
}

// runUnprivileged runs a test only as the user with fewer rights, to save time: a
// function that works for this user works for root too.
func runUnprivileged(t *testing.T, test func(t *testing.T, start func(plugin string) *rig.Telegraf)) {
	asUser(t, users[1].prefix, test)
}

func asUser(t *testing.T, prefix []string, test func(t *testing.T, start func(plugin string) *rig.Telegraf)) {
	guest.RequireGuest(t)
	guest.AddDevice(t, device, guest.Driver(), netdev)
	test(t, func(plugin string) *rig.Telegraf { return startAs(t, prefix, plugin, "250ms") })
}

// startAs starts Telegraf as a user and returns once the device is open and its
// counters are there.
func startAs(t *testing.T, prefix []string, plugin, interval string) *rig.Telegraf {
	t.Helper()
	r := rig.Start(t, rig.Config{Plugin: plugin, Prefix: prefix, Interval: interval})
	awaitOpen(r, device)
	return r
}

// quiet is a configuration without probes.
const quiet = `[[inputs.rdma_events]]
  [inputs.rdma_events.probe]
    interval = "0s"
`

func awaitOpen(r *rig.Telegraf, device string) {
	r.Await(device+" is open and counted", 60*time.Second, func(points []rig.Point) bool {
		return isOpen(points, device) && asyncPoint(points, device).Fields != nil
	})
}

func isOpen(points []rig.Point, device string) bool {
	return rig.Last(points, "rdma_device", "device", device).Int("open") == 1
}

// asyncPoint returns the newest point of a device's port 1 in rdma_async.
func asyncPoint(points []rig.Point, device string) rig.Point {
	return rig.Last(points, "rdma_async", "device", device, "port", "1")
}

func portPoint(points []rig.Point, device string) rig.Point {
	return rig.Last(points, "rdma_port", "device", device, "port", "1")
}

// eventSum returns the sum of count over all points of an event in
// rdma_async_event.
func eventSum(points []rig.Point, device, event string) int64 {
	return rig.Sum(rig.Select(points, "rdma_async_event", "device", device, "event", event), "count")
}

// checkDuration logs a duration, and fails the test if it is more than ten times the promised
// one.
func checkDuration(t *testing.T, what string, took, promised time.Duration) {
	t.Helper()
	t.Logf("%s: took %v, promised %v", what, took.Round(time.Millisecond), promised)
	if took > 10*promised {
		t.Errorf("%s: took %v, more than ten times %v", what, took, promised)
	}
}

// quantile returns the q-quantile of values.
func quantile[T cmp.Ordered](values []T, q float64) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func killProcess(t *testing.T, pid int) {
	t.Helper()
	p, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
}
