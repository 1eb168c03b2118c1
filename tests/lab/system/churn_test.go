//go:build guest

package system

import (
	"path/filepath"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// Half of the cycles wait until the device is open, so that each of them has one
// reported removal. In the other half the device is deleted in any state.
func TestHundredAddsAndDeletesLeaveNothingBehind(t *testing.T) {
	cycles := int64(100)
	if testing.Short() {
		cycles = 6
	}
	runUnprivileged(t, func(t *testing.T, _ func(string) *rig.Telegraf) {
		start := func() *rig.Telegraf {
			r := rig.Start(t, rig.Config{Plugin: fastProbe, Prefix: users[1].prefix, Interval: "250ms", KeepStderr: true})
			awaitProbe(r, bestMethod(), 20)
			return r
		}
		a := newAdmin(t)
		calm := start()
		goroutines := calm.CountGoroutines()
		calm.Stop()

		r := start()
		plugin := rig.Children(t, r.PID())[0]
		before := rig.FootprintOf(t, plugin)
		sockets := runtimeFiles(t)
		for i := range cycles / 2 {
			a.deleteLink()
			awaitAbsent(r, device, "deleted", i+1)
			a.addLink()
			awaitOpens(r, device, i+2)
		}
		for range cycles / 2 {
			a.deleteLink()
			a.addLink()
		}
		requireEventsCounted(t, r, 5)
		points := awaitProbe(r, bestMethod(), vectorRounds(r.Points(), "0")+20)
		var after rig.Footprint
		guest.Eventually(t, "the plugin holds no more than before", 20*time.Second, func() bool {
			after = rig.FootprintOf(t, plugin)
			return after.MoreThan(before) == "" && runtimeFiles(t) <= sockets
		})
		d := rig.Last(points, "rdma_device", "device", device)
		t.Logf("%d cycles: opens %d, removals %d; held %v, runtime files %d", cycles, d.Int("opens"), d.Int("removals"),
			after, runtimeFiles(t))
		if now := r.CountGoroutines(); goroutines == 0 || now > goroutines+2 {
			t.Errorf("want %d goroutines as in a plugin that has just been started, got %d", goroutines, now)
		} else {
			t.Logf("goroutines: %d, in a plugin that has just been started %d", now, goroutines)
		}
		r.Stop()
	})
}

// runtimeFiles counts the files of plugins in their directories for sockets.
func runtimeFiles(t *testing.T) int {
	t.Helper()
	n := 0
	for _, pattern := range []string{"/tmp/rdma_events*", "/tmp/rdma_events*/*", "/run/rdma_events/*", "/run/rdma_events/*/*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		n += len(found)
	}
	return n
}
