//go:build guest

package system

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// withoutCarrier takes the carrier of netdev away and waits until that is explained.
func withoutCarrier(t *testing.T, r *rig.Telegraf) {
	t.Helper()
	guest.IP(t, "link", "set", peer, "down")
	requireCause(t, awaitEvidence(t, r, "port_err", 1)[0], "no_carrier")
}

// waitsIn reports whether a thread of a process waits in a function of the kernel.
func waitsIn(pid int, function string) bool {
	stacks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stack", pid))
	for _, stack := range stacks {
		if text, err := os.ReadFile(stack); err == nil && strings.Contains(string(text), " "+function+"+") {
			return true
		}
	}
	return false
}

// The kernel's RTNL lock is one for the whole host. Another process holds it while the plugin asks why a port has no link.
func TestEventsAreReadWhileTheRTNLLockIsHeld(t *testing.T) {
	guest.RequireDriver(t, "rxe")
	onVeth(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		const held = 20 * time.Second
		r := start(quiet)
		awaitGIDs(r)
		withoutCarrier(t, r)
		workers := r.Workers()
		began := time.Now()
		free := guest.HoldRTNL(t, held)
		events := 0
		for ; time.Since(began) < held-2*time.Second; events++ {
			guest.Inject(t, device, guest.SMChange, 1, 1)
			time.Sleep(200 * time.Millisecond)
		}
		r.Await("the events meanwhile", 20*time.Second, func(p []rig.Point) bool { return eventCounter(p, "1", "sm_change") == int64(events) })
		select {
		case <-free:
			t.Fatal("the lock is free again")
		default:
		}
		t.Logf("%d events read while the lock was held", events)
		p := awaitEvidence(t, r, "sm_change", 1)[0]
		if p.Text("left_out") == "" || p.Int("changed") < 0 {
			t.Errorf("want the counters, and what was not answered left out, got %v", p)
		}
		r.AwaitLog("ethtool not responding, port 1, for 5s, hint another process holds the kernel's RTNL lock", 10*time.Second)
		<-free
		// The snapshot that waited may be taken before the query of the port, which waited for the lock too, has returned.
		for left := "the lock"; left != ""; {
			if time.Since(began) > 3*time.Minute {
				t.Fatalf("want an answer to all, got left out: %s", left)
			}
			guest.Inject(t, device, guest.SMChange, 1, 1)
			time.Sleep(time.Second)                                           // the pace of snapshots
			if all := evidencePoints(r.Points(), "sm_change"); len(all) > 1 { // those meanwhile are part of the stuck query's
				left = all[len(all)-1].Text("left_out")
			}
		}
		points := r.Points()
		if now := r.Workers(); len(now) != 1 || now[0] != workers[0] {
			t.Errorf("want the worker %v to stay, got %v", workers, now)
		}
		if d := rig.Last(points, "rdma_device", "device", device); d.Int("opens") != 1 || d.Int("worker_restarts") != 0 {
			t.Errorf("the device was opened again: %v", d)
		}
	})
}

// A driver that does not answer holds the RTNL lock, and the worker's thread cannot be killed. The snapshot is a base:
// after an event the port is queried, too. A query of rxe waits for the same lock, and the removal waits for the query.
func TestALinkDeletionWaitsForNoSnapshot(t *testing.T) {
	guest.RequireDriver(t, "rxe")
	const (
		held = 3 * time.Second  // much longer than a removal takes
		late = 25 * time.Second // longer than the test allows, after an interval
	)
	remove := func() time.Duration {
		began := time.Now()
		guest.DeleteLink(t, device)
		return time.Since(began)
	}
	onVeth(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		free := guest.HoldRTNL(t, held)
		alone := remove()
		<-free
		guest.AddDeviceOn(t, device, guest.Driver(), netdev)
		r := start(strings.Replace(allOfEthtool, "  [", "  state_interval = \"0s\"\n  [", 1) + "    snapshot_interval = \"10s\"\n")
		awaitGIDs(r)
		worker := r.Workers()[0]
		guest.GiveReason(t, netdev, guest.NoCable, late)
		guest.Eventually(t, "the snapshot is under way", 20*time.Second, func() bool { return waitsIn(worker, "late_statistics") })
		took := remove()
		t.Logf("rdma link delete while the worker waits for the driver: %v; with the lock held and without the plugin: %v", took, alone)
		if took > alone+tenTimes*longestDelay {
			t.Errorf("rdma link delete: took %v beside a snapshot, %v without the plugin", took, alone)
		}
		requireCause(t, awaitEvidence(t, r, "removed", 1)[0], "driver_removed")
	})
}
