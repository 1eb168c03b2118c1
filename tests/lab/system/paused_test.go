//go:build guest

package system

import (
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// A pause must not be taken for a fault of the device or of the worker: with clocks that are held, and with clocks that go on.
func TestAPauseOfTheGuestIsNoFault(t *testing.T) {
	const pause = 20 * time.Second
	runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		r := start(fastProbe)
		awaitRounds(r, device, 20)
		for _, how := range []string{guest.PauseStop, guest.PauseFreeze} {
			requirePauseIsNoFault(t, r, how, pause)
		}
	})
}

func requirePauseIsNoFault(t *testing.T, r *rig.Telegraf, how string, pause time.Duration) {
	t.Helper()
	before := r.Points()
	worker := workerOf(t, r, device)
	rounds := probeRounds(before, device)
	began := time.Now()
	guest.Pause(t, how, pause)
	seen := time.Since(began)
	t.Logf("%s: the guest was paused for %v, and its clock saw %v", how, pause, seen.Round(time.Millisecond))
	if how == guest.PauseFreeze && seen < pause {
		t.Errorf("%s: want a clock that goes on, got %v", how, seen)
	}
	awaitRounds(r, device, rounds+100)
	points := r.Points()[len(before):]
	for _, p := range rig.Select(points, "rdma_cq_probe", "device", device) {
		for _, lost := range []string{"lost_completions", "lost_events", "errors", "late"} {
			if p.Int(lost) != 0 {
				t.Fatalf("%s: want no %s, got %v", how, lost, p.Fields)
			}
		}
	}
	for _, p := range rig.Select(points, "rdma_device", "device", device) {
		if p.Int("open") != 1 || p.Int("opens") != 1 || p.Int("worker_restarts") != 0 {
			t.Fatalf("%s: want the device to stay open, got %v", how, p.Fields)
		}
	}
	for _, p := range rig.Select(points, "rdma_command", "device", device) {
		if p.Int("stuck") != 0 {
			t.Fatalf("%s: want nothing stuck, got %v", how, p.Fields)
		}
	}
	requireEqual(t, "worker", int64(worker), int64(workerOf(t, r, device)))
	t.Logf("%s: %d rounds were disturbed", how, rig.Last(points, "rdma_cq_probe", "device", device, "vector", "0").Int("disturbed"))
}
