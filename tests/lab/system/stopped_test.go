//go:build guest

package system

import (
	"syscall"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// There are two RoCE devices and an iWARP device. The worker of the first one is
// stopped, as if a vendor's library blocked it for ever.
func TestOnIWARPAndRoCEAtOnceAStoppedWorkerDisturbsNoOther(t *testing.T) {
	guest.RequireDriver(t, "siw")
	guest.AddDevice(t, "roce0", "rxe", "d0")
	guest.AddDevice(t, "roce1", "rxe", "d1")
	guest.AddDevice(t, "iwarp0", "siw", "d2")
	r := rig.Start(t, rig.Config{Plugin: fastProbe, Prefix: users[1].prefix, Interval: "250ms"})
	defer r.Stop() // before the devices are deleted
	others := map[string]string{"roce1": "d1", "iwarp0": "d2"}
	for _, name := range []string{"roce0", "roce1", "iwarp0"} {
		awaitOpen(r, name)
		awaitRounds(r, name, 10)
	}
	stopped := workerOf(t, r, "roce0")
	if stopped == 0 {
		t.Fatal("no worker has roce0 open")
	}
	if err := syscall.Kill(stopped, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for name, netdev := range others {
		flapped := time.Now()
		guest.Inject(t, name, guest.PKeyChange, 1, 1000)
		guest.IP(t, "link", "set", netdev, "down")
		guest.IP(t, "link", "set", netdev, "up")
		r.Await(name+" goes on", 20*time.Second, func(p []rig.Point) bool {
			return asyncPoint(p, name).Int("pkey_change") == 1000 && eventSum(p, name, "pkey_change") == 1000 &&
				portPoint(p, name).Int("flaps") == 1 && portPoint(p, name).Int("up") == 1
		})
		checkDuration(t, "events and a flap of "+name+" beside a stopped worker", time.Since(flapped), time.Second)
		awaitRounds(r, name, probeRounds(r.Points(), name)+20)
	}
	// The plugin detects and replaces the stopped worker, and opens the device again.
	points := r.Await("the stopped worker is replaced", 40*time.Second, func(p []rig.Point) bool {
		d := rig.Last(p, "rdma_device", "device", "roce0")
		return d.Int("opens") == 2 && d.Int("open") == 1
	})
	t.Logf("replaced %v after it was stopped", time.Since(began).Round(time.Millisecond))
	if stuck := rig.Select(points, "rdma_device", "device", "roce0"); !hasText(stuck, "reason", "stuck") {
		t.Errorf("want the gap reported as stuck, got %v", stuck)
	}
	if rig.Running(stopped) {
		t.Errorf("the stopped worker %d is still there", stopped)
	}
	for name := range others {
		d := rig.Last(points, "rdma_device", "device", name)
		requireEqual(t, "opens of "+name, 1, d.Int("opens"))
		requireEqual(t, "restarts of "+name, 0, d.Int("worker_restarts"))
		requireNoGap(t, points, name, 2*time.Second)
	}
	guest.Inject(t, "roce0", guest.PKeyChange, 1, 5)
	points = r.Await("events of the first device", 20*time.Second, func(p []rig.Point) bool {
		return asyncPoint(p, "roce0").Int("pkey_change") == 5
	})
	rig.RequireCountersNeverFall(t, points)
}

// workerOf returns the worker that has a device's node open, or 0 if none has.
func workerOf(t *testing.T, r *rig.Telegraf, name string) int {
	t.Helper()
	return firstHolder(t, r.Workers(), name)
}

// firstHolder returns the first of the processes that has a device's node open, or 0 if
// none has.
func firstHolder(t *testing.T, pids []int, name string) int {
	t.Helper()
	node := "/dev/infiniband/" + nodeOf(t, name)
	for _, pid := range pids {
		if rig.HasOpen(t, pid, node) {
			return pid
		}
	}
	return 0
}

func awaitRounds(r *rig.Telegraf, name string, atLeast int64) {
	r.Await("rounds of "+name, 30*time.Second, func(p []rig.Point) bool { return probeRounds(p, name) >= atLeast })
}

// probeRounds returns how many rounds vector 0 of a device has done, by all methods.
func probeRounds(points []rig.Point, name string) int64 {
	var sum int64
	for _, method := range []string{"ud_send", "rc_write", "flush"} {
		sum += max(rig.Last(points, "rdma_cq_probe", "device", name, "vector", "0", "method", method).Int("rounds"), 0)
	}
	return sum
}

func hasText(points []rig.Point, field, text string) bool {
	for _, p := range points {
		if p.Text(field) == text {
			return true
		}
	}
	return false
}

// requireNoGap asserts that no two points of a device's series are further apart
// than longest.
func requireNoGap(t *testing.T, points []rig.Point, name string, longest time.Duration) {
	t.Helper()
	var last int64
	for _, p := range rig.Select(points, "rdma_async", "device", name, "port", "1") {
		if gap := time.Duration(p.Time - last); last != 0 && gap > longest {
			t.Errorf("%s: no point for %v", name, gap)
		}
		last = p.Time
	}
}
