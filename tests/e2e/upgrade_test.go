package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rdma_events/tests/rig"
)

// isReplaced reports whether the program file of a process has been replaced by another file.
func isReplaced(t *testing.T, pid int) bool {
	t.Helper()
	target, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.HasSuffix(target, " (deleted)")
}

func TestAPluginThatWasUpgradedGoesOnInItsVersionUntilItsRestart(t *testing.T) {
	t.Parallel()
	programs := rig.Install(t)
	r := rig.Start(t, rig.Config{Plugin: simulated, RestartDelay: "200ms", Programs: programs})
	awaitOpen(r, 4)
	plugin := rig.Children(t, r.PID())[0]
	programs.Upgrade()
	for _, device := range []string{"sim0", "sim3"} {
		sendSignal(t, r.Worker(device), syscall.SIGKILL)
		r.Await(device+" open again", time.Minute, func(points []rig.Point) bool {
			p := rig.Last(points, "rdma_device", "device", device)
			return p.Int("opens") == 2 && p.Int("open") == 1
		})
		if !isReplaced(t, r.Worker(device)) {
			t.Errorf("%s: the worker that was started after the upgrade is of the new version, the plugin is not", device)
		}
	}
	rig.RequireCountersNeverFall(t, r.Points())
	if now := rig.Children(t, r.PID()); !slices.Equal(now, []int{plugin}) || !isReplaced(t, plugin) {
		t.Fatalf("want the old plugin, process %d, got %v", plugin, now)
	}

	sendSignal(t, plugin, syscall.SIGTERM)
	r.Await("the new plugin with four workers", time.Minute, func([]rig.Point) bool {
		now := rig.Children(t, r.PID())
		return len(now) == 1 && now[0] != plugin && len(r.Workers()) == 4
	})
	for _, pid := range append(rig.Children(t, r.PID()), r.Workers()...) {
		if isReplaced(t, pid) {
			t.Errorf("process %d is of the old version after the restart", pid)
		}
	}
	r.Stop()
	if left := programs.Processes(); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

func TestAKilledInstanceDisturbsNoOtherOnItsHost(t *testing.T) {
	t.Parallel()
	env := []string{"RUNTIME_DIRECTORY=" + shortDir(t)} // both instances clean up the same directory
	start := func() *rig.Telegraf {
		r := rig.Start(t, rig.Config{Plugin: simulated, Interval: "250ms", RestartDelay: "200ms", Env: env})
		awaitOpen(r, 4)
		return r
	}
	undisturbed, killed := start(), start()
	workers := undisturbed.Workers()
	for range 3 {
		plugin := rig.Children(t, killed.PID())[0]
		sendSignal(t, plugin, syscall.SIGKILL)
		began := time.Now().UnixNano()
		killed.Await("the other instance is back", time.Minute, func(points []rig.Point) bool {
			p := rig.Last(points, "rdma_collector")
			return p.Time > began && p.Int("workers") == 4
		})
	}
	rounds := func(points []rig.Point) int64 {
		return rig.Last(points, "rdma_cq_probe", "device", "sim0").Int("rounds")
	}
	before := rounds(undisturbed.Points())
	points := undisturbed.Await("ten more rounds", time.Minute, func(points []rig.Point) bool { return rounds(points) > before+10 })
	if now := undisturbed.Workers(); !slices.Equal(now, workers) {
		t.Errorf("want workers %v, got %v", workers, now)
	}
	if got := reasonCounts(points); got["ok"] != 4 {
		t.Errorf("want four devices that are well, got %v", got)
	}
	for _, p := range rig.Select(points, "rdma_device") {
		if p.Int("worker_restarts") > 0 || p.Int("opens") > 1 {
			t.Errorf("the other instance is disturbed: %s %v", p.Series(), p.Fields)
		}
	}
	rig.RequireCountersNeverFall(t, points)
}
