//go:build guest

package system

import (
	"syscall"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

func TestAKilledWorkerIsReplaced(t *testing.T) {
	forEachUser(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		r := start(fastProbe)
		guest.Inject(t, device, guest.PKeyChange, 1, 11)
		r.Await("the counter", 20*time.Second, func(p []rig.Point) bool { return eventCounter(p, "1", "pkey_change") == 11 })
		workers := r.Workers()
		if len(workers) != 1 {
			t.Fatalf("want one worker, got %v", workers)
		}

		// The link goes down while no worker runs.
		killProcess(t, workers[0])
		began := time.Now()
		guest.IP(t, "link", "set", netdev, "down")
		guest.Eventually(t, "another worker", 20*time.Second, func() bool {
			now := r.Workers()
			return len(now) == 1 && now[0] != workers[0]
		})
		checkDuration(t, "another worker after kill -9", time.Since(began), 2*time.Second)
		points := r.Await("the device is open again", 30*time.Second, func(p []rig.Point) bool {
			return rig.Last(p, "rdma_device", "device", device).Int("opens") == 2 &&
				portPoint(p, device).Text("state_name") == "down"
		})
		t.Logf("open again %v after the kill", time.Since(began).Round(time.Millisecond))
		change := rig.Last(points, "rdma_port_change", "device", device)
		if change.Tags["witness"] != "reopen" {
			t.Errorf("want the change in the gap with witness reopen, got %v", change)
		}
		t.Logf("the change in the gap: %v %v", change.Tags, change.Fields)
		guest.IP(t, "link", "set", netdev, "up")
		guest.Inject(t, device, guest.PKeyChange, 1, 1)
		points = r.Await("the counter goes on", 30*time.Second, func(p []rig.Point) bool {
			return eventCounter(p, "1", "pkey_change") == 12 && eventSum(p, device, "pkey_change") == 12 &&
				portPoint(p, device).Int("up") == 1
		})
		rig.RequireCountersNeverFall(t, points)
		if d := rig.Last(points, "rdma_device", "device", device); d.Int("worker_restarts") != 1 {
			t.Errorf("want one restart, got %v", d.Fields)
		}
	})
}

// A worker that is killed in the middle of a storm has read events that it has not
// reported. The ledger has them.
func TestEventsReadByDeadWorkerAreCounted(t *testing.T) {
	runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		r := start(quiet)
		events := 200_000
		if testing.Short() {
			events = 50_000
		}
		stormed := make(chan error, 1)
		go func() { stormed <- guest.TryInject(t, device, guest.PKeyChange, 1, events) }()
		r.Await("the storm's beginning", 30*time.Second, func(p []rig.Point) bool {
			return eventCounter(p, "1", "pkey_change") > 0 || eventSum(p, device, "pkey_change") > 0
		})
		killProcess(t, r.Workers()[0])
		if err := <-stormed; err != nil {
			t.Fatal(err)
		}
		guest.Inject(t, device, guest.SMChange, 1, 1)
		points := r.Await("counter and sum of count agree", 60*time.Second, func(p []rig.Point) bool {
			n := eventCounter(p, "1", "pkey_change")
			return rig.Last(p, "rdma_device", "device", device).Int("opens") == 2 &&
				n > 0 && n == eventSum(p, device, "pkey_change")
		})
		a := asyncPoint(points, device)
		if a.Int("read") != a.Int("acked")+a.Int("unacked")+a.Int("released") {
			t.Errorf("parity does not hold: %v", a.Fields)
		}
		t.Logf("counted %d of %d; released %d", a.Int("pkey_change"), events, a.Int("released"))
		rig.RequireCountersNeverFall(t, points)
	})
}

// TestEventsOfAKilledWorkerKeepTypePortAndTime kills a worker before the plugin has taken the events that the worker read.
// They are in the worker's ring, each with its type, port and time, and not only in the counts of the ledger.
func TestEventsOfAKilledWorkerKeepTypePortAndTime(t *testing.T) {
	runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		r := start(quiet)
		plugin, worker := rig.Children(t, r.PID())[0], r.Worker(device)
		guest.Inject(t, device, guest.PKeyChange, 1, 0) // loads the injector
		stopProcess(t, plugin)
		type span struct{ from, to int64 } // unix ns
		injected, spans := map[int]int64{}, map[int]span{}
		for count, number := range []int{guest.PKeyChange, guest.SMChange, guest.ClientReregister, 30} {
			began := time.Now()
			injected[number] = int64(count + 1)
			guest.Inject(t, device, number, 1, count+1)
			awaitLedger(t, worker, injected)
			spans[number] = span{began.UnixNano(), time.Now().UnixNano()}
		}
		killProcess(t, worker)
		guest.Eventually(t, "the worker has ended", 20*time.Second, func() bool { return !rig.Running(worker) })
		sendSignal(t, plugin, syscall.SIGCONT)

		points := awaitCounted(r, injected)
		for number, at := range spans {
			name, port := eventName(number)
			for _, p := range rig.Select(points, "rdma_async_event", "device", device, "event", name) {
				if p.Tags["port"] != port || p.Time < at.from || p.Time > at.to {
					t.Errorf("%s: want port %q and a time from %d to %d, got %v at %d", name, port, at.from, at.to, p.Tags, p.Time)
				}
			}
		}
		r.Await("the device is open again", 60*time.Second, func(p []rig.Point) bool {
			return rig.Last(p, "rdma_device", "device", device).Int("opens") == 2
		})
		rig.RequireCountersNeverFall(t, r.Points())
	})
}
