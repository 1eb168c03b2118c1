//go:build guest

package system

import (
	"strings"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// The driver's query of a port waits in the kernel for longer than a worker may otherwise be in one call. The worker
// stays, its reader reads on, the call is reported while it lasts, and an end of it too.
func TestAQueryThatHangsInTheDriverIsReportedAndStopsNoReader(t *testing.T) {
	runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		const hangs = 20 * time.Second
		r := start(fastProbe)
		awaitOpen(r, device)
		workers := r.Workers()
		began := time.Now()
		guest.HangQueries(t, device, hangs)
		stuck := func(p []rig.Point) bool {
			return rig.Last(p, "rdma_command", "device", device, "call", "query_port").Int("stuck") == 1
		}
		points := r.Await("the query is stuck", 60*time.Second, stuck)
		first := rig.Select(points, "rdma_command", "device", device, "call", "query_port")[0]
		t.Logf("reported after the query had lasted for %v", time.Duration(first.Int("busy_ns")))
		if rig.Last(points, "rdma_host").Int("commands_stuck") > 1 {
			t.Errorf("want one stuck command, got %v", rig.Last(points, "rdma_host"))
		}
		p := awaitEvidence(t, r, "command", 1)[0]
		requireCause(t, p, "command_stuck")
		if want := "the device is not answering another command"; !strings.Contains(p.Text("left_out"), want) {
			t.Errorf("want counters left out since %s, got %v", want, p)
		}
		events := 0
		for ; time.Since(began) < hangs-2*time.Second; events++ {
			guest.Inject(t, device, guest.SMChange, 1, 1)
			time.Sleep(200 * time.Millisecond)
		}
		r.Await("the events during the hang", 20*time.Second, func(p []rig.Point) bool { return eventCounter(p, "1", "sm_change") == int64(events) })
		t.Logf("%d events read while the query hung", events)
		points = r.Await("an answer", 60*time.Second, func(p []rig.Point) bool { return !stuck(p) })
		if now := r.Workers(); len(now) != 1 || now[0] != workers[0] {
			t.Errorf("want the worker %v to stay, got %v", workers, now)
		}
		if d := rig.Last(points, "rdma_device", "device", device); d.Int("opens") != 1 || d.Int("worker_restarts") != 0 {
			t.Errorf("the device was opened again: %v", d)
		}
		p = rig.Last(points, "rdma_command", "device", device, "call", "query_port")
		if p.Text("status") != "ok" {
			t.Errorf("want a success, got %v", p)
		}
	})
}
