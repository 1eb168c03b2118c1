//go:build guest

package pvrdma

import (
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// pullCable takes the carrier of the network device away, and returns a function that brings it back. Both return once the guest's driver
// has heard of it.
func pullCable(t *testing.T) (plugIn func()) {
	t.Helper()
	set := func(state string) {
		t.Helper()
		guest.SetLink(t, guest.PVRDMANetdevModel, state)
		guest.Eventually(t, "the carrier of "+guest.PVRDMANetdev+" is "+state, 20*time.Second, func() bool {
			n := guest.NetdevState(t, guest.PVRDMANetdev)
			return n.Up && n.Carrier == (state == "up")
		})
	}
	pulled := true
	plugIn = func() {
		t.Helper()
		if pulled {
			pulled = false
			set("up")
		}
	}
	t.Cleanup(plugIn)
	set("down")
	return plugIn
}

// The driver raises no event for a carrier, and its device answers queries of the port without it. So nothing is reported, and the plugin
// goes on as before.
func TestLostCarrierMovesNoPort(t *testing.T) {
	r := startTelegraf(t, defaults)
	awaitRounds(r, "ud_send", 3)
	// A query whose answer is that of the one before is reported all the same, by its count.
	asked := func(p []rig.Point) int64 {
		return rig.Last(p, "rdma_command", "device", device, "call", "query_port").Int("calls")
	}
	requireNothingHappens := func(what string) {
		t.Helper()
		before, good := asked(r.Points()), probePoint(r.Points(), "ud_send").Int("successes")
		points := r.Await(what+": the port is queried", time.Minute, func(p []rig.Point) bool {
			return asked(p) >= before+3 && probePoint(p, "ud_send").Int("successes") >= good+3
		})
		requireNothingLost(t, probePoint(points, "ud_send"))
		if p := portPoint(points); p.Text("state_name") != "active" || p.Int("transitions") != 0 {
			t.Errorf("%s: want the port active all the time, got %v", what, p.Fields)
		}
		for _, event := range []string{"port_err", "port_active", "gid_change"} {
			if n := eventCount(points, event); n != 0 {
				t.Errorf("%s: want no %s, got %d", what, event, n)
			}
		}
		if e := rig.Select(points, "rdma_evidence", "device", device); len(e) > 0 {
			t.Errorf("%s: want no evidence, got %v", what, e[0].Fields)
		}
	}
	before := guest.NetdevState(t, guest.PVRDMANetdev).CarrierChanges
	plugIn := pullCable(t)
	requireNothingHappens("without a carrier")
	plugIn()
	requireNothingHappens("with the carrier again")
	if n := guest.NetdevState(t, guest.PVRDMANetdev).CarrierChanges - before; n != 2 {
		t.Errorf("want the carrier lost and found once, the kernel counts %d changes", n)
	}
}

// The network device of a port goes with its driver. The driver of the RDMA device goes on without one, and takes the next one.
func TestNetdevUnboundAndBoundMovesThePort(t *testing.T) {
	r := startTelegraf(t, defaults)
	awaitRounds(r, "ud_send", 3)
	requireEventsCounted(t, r, 3)

	took := timeTaken(func() { guest.UnbindPVRDMANetdev(t) })
	requireNoDelay(t, "unbind of the network device", took, 0)
	t.Cleanup(func() { guest.AddPVRDMA(t) })
	points := r.Await("the port is down, and its addresses are gone", 60*time.Second, func(p []rig.Point) bool {
		return eventCount(p, "port_err") == 1 && portPoint(p).Int("gids") == 0 &&
			len(rig.Select(p, "rdma_port_change", "device", device, "port", "1")) > 0
	})
	t.Logf("without a network device: %v, %v", portPoint(points).Fields, probePoint(points, "ud_send").Fields)
	if d := devicePoint(points); d.Int("present") != 1 || d.Int("open") != 1 || d.Int("removals") != 0 {
		t.Errorf("want the device open, got %v", d.Fields)
	}
	requireEventsCounted(t, r, 4)

	guest.BindPVRDMANetdev(t)
	guest.AddPVRDMA(t)
	r.Await("the port is active", 60*time.Second, func(p []rig.Point) bool {
		return eventCount(p, "port_active") == 1 && portPoint(p).Text("state_name") == "active" && portPoint(p).Int("gids") > 0
	})
	points = awaitRounds(r, "ud_send", probePoint(r.Points(), "ud_send").Int("successes")+5)
	if d := devicePoint(points); d.Int("open") != 1 || d.Int("opens") != 1 || d.Int("worker_restarts") != 0 || d.Int("removals") != 0 {
		t.Errorf("want the device open all the time, got %v", d.Fields)
	}
	if n := eventCount(points, "pkey_change"); n != 7 {
		t.Errorf("want the 7 events of before and meanwhile, got %d", n)
	}
	for _, e := range rig.Select(points, "rdma_evidence", "device", device) {
		t.Logf("evidence: %v %v", e.Tags, e.Fields)
	}
	requireAllAcknowledged(t, points)
	rig.RequireCountersNeverFall(t, points)
}
