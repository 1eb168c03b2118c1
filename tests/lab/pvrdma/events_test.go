//go:build guest

package pvrdma

import (
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

func TestRaisedEventsAreCountedOnce(t *testing.T) {
	const times = 3
	r := startTelegraf(t, quiet)
	for _, row := range []struct {
		number int
		name   string
	}{
		{guest.LIDChange, "lid_change"},
		{guest.PKeyChange, "pkey_change"},
		{guest.SMChange, "sm_change"},
		{guest.ClientReregister, "client_reregister"},
		{guest.PortErr, "port_err"},
		{guest.PortActive, "port_active"},
		{guest.DeviceFatal, "device_fatal"},
	} {
		before := eventCount(r.Points(), row.name)
		guest.RaiseEvent(t, row.number, times)
		points := r.Await(row.name, 20*time.Second, func(p []rig.Point) bool {
			return eventCount(p, row.name) == before+times && emittedCount(p, row.name) == before+times
		})
		requireAllAcknowledged(t, points)
	}
	// An event that was counted twice would be counted by now.
	points := r.Await("3 fatals", time.Minute, func(p []rig.Point) bool { return devicePoint(p).Int("fatals") >= times })
	for _, name := range []string{"lid_change", "pkey_change", "sm_change", "client_reregister", "port_err", "port_active", "device_fatal"} {
		if n := eventCount(points, name); n != times {
			t.Errorf("want %d %s, got %d", times, name, n)
		}
	}
	if d := devicePoint(points); d.Int("fatals") != times || d.Int("open") != 1 || d.Int("opens") != 1 {
		t.Errorf("want %d fatals and the device open still, got %v", times, d.Fields)
	}
}

// 10,000 events come in 40 interrupts, since the ring of the driver has no space for more. For each event of most other types
// the kernel asks the device for its port.
func TestBurstIsCountedExactly(t *testing.T) {
	const burst = 10_000
	r := startTelegraf(t, quiet)
	guest.RaiseEvent(t, guest.SMChange, burst)
	points := r.Await("the burst", 2*time.Minute, func(p []rig.Point) bool {
		return eventCount(p, "sm_change") >= burst && emittedCount(p, "sm_change") >= burst
	})
	if n, sum := eventCount(points, "sm_change"), emittedCount(points, "sm_change"); n != burst || sum != burst {
		t.Errorf("want %d events, got %d and a sum of %d", burst, n, sum)
	}
	requireAllAcknowledged(t, points)
}

// The events of objects reach their owner alone, here the worker with its probe.
func TestEventsOfTheProbesObjectsAreCountedOnce(t *testing.T) {
	const times = 2
	r := startTelegraf(t, defaults)
	awaitRounds(r, "ud_send", 3)
	for _, row := range []struct {
		kind   string
		number int
		name   string
	}{
		{"qp", guest.CommEst, "comm_est"},
		{"qp", guest.SQDrained, "sq_drained"},
		{"qp", guest.QPLastWQEReached, "qp_last_wqe_reached"},
		{"qp", guest.QPReqErr, "qp_req_err"},
		{"qp", guest.QPAccessErr, "qp_access_err"},
		{"qp", guest.QPFatal, "qp_fatal"},
		{"cq", guest.CQErr, "cq_err"},
	} {
		objects := ownedNumbers(t, row.kind, r.Workers()[0])
		if len(objects) == 0 {
			t.Fatalf("want the worker to have a %s", row.kind)
		}
		for _, number := range objects {
			guest.RaiseObjectEvent(t, row.kind, number, row.number, times)
		}
		want := int64(times * len(objects))
		points := r.Await(row.name, 20*time.Second, func(p []rig.Point) bool {
			return eventCount(p, row.name) >= want && emittedCount(p, row.name) >= want
		})
		if n, sum := eventCount(points, row.name), emittedCount(points, row.name); n != want || sum != want {
			t.Errorf("%s: want %d, got %d and a sum of %d", row.name, want, n, sum)
		}
		requireAllAcknowledged(t, points)
	}
	awaitRounds(r, "ud_send", probePoint(r.Points(), "ud_send").Int("successes")+3)
}

// The driver raises port_err and port_active itself when its vmxnet3 is set down and up.
func TestNetdevSetDownAndUpMovesThePort(t *testing.T) {
	const times = 3
	r := startTelegraf(t, quiet)
	for n := int64(1); n <= times; n++ {
		guest.IP(t, "link", "set", guest.PVRDMANetdev, "down")
		r.Await("the port is down", 20*time.Second, func(p []rig.Point) bool {
			return eventCount(p, "port_err") == n && portPoint(p).Text("state_name") == "down"
		})
		guest.IP(t, "link", "set", guest.PVRDMANetdev, "up")
		r.Await("the port is active", 20*time.Second, func(p []rig.Point) bool {
			return eventCount(p, "port_active") == n && portPoint(p).Text("state_name") == "active"
		})
	}
	points := r.Await("evidence", 90*time.Second, func(p []rig.Point) bool {
		return len(rig.Select(p, "rdma_evidence", "device", device, "trigger", "port_err")) > 0
	})
	if e := rig.Select(points, "rdma_evidence", "device", device, "trigger", "port_err")[0]; e.Text("cause") != "admin_down" {
		t.Errorf("want the cause admin_down, got %v", e.Fields)
	}
	if p := portPoint(points); p.Int("transitions") != 2*times || p.Int("flaps") != times {
		t.Errorf("want %d transitions and %d flaps, got %v", 2*times, times, p.Fields)
	}
	requireAllAcknowledged(t, points)
}

func TestAddressIsOneGIDChange(t *testing.T) {
	r := startTelegraf(t, quiet)
	r.Await("the GID table", 20*time.Second, func(p []rig.Point) bool { return portPoint(p).Int("gids") > 0 })
	before := eventCount(r.Points(), "gid_change")
	guest.IP(t, "addr", "add", "10.78.0.7/24", "dev", guest.PVRDMANetdev)
	r.Await("the GID that came", 20*time.Second, func(p []rig.Point) bool {
		return eventCount(p, "gid_change") == before+1 && len(rig.Select(p, "rdma_gid_change", "device", device, "action", "added")) > 0
	})
	guest.IP(t, "addr", "delete", "10.78.0.7/24", "dev", guest.PVRDMANetdev)
	points := r.Await("the GID that went", 20*time.Second, func(p []rig.Point) bool {
		return eventCount(p, "gid_change") == before+2 && len(rig.Select(p, "rdma_gid_change", "device", device, "action", "removed")) > 0
	})
	requireAllAcknowledged(t, points)
}

// A port that goes down without an event, as its driver raises none for a carrier, is found by a query.
func TestPortDownWithoutAnEventIsFoundByAQuery(t *testing.T) {
	r := startTelegraf(t, quiet)
	end := guest.OrderPVHost(t, guest.PortDownInQueries, guest.PortActiveInQueries)
	points := r.Await("the port is down", 60*time.Second, func(p []rig.Point) bool { return portPoint(p).Text("state_name") == "down" })
	if c := rig.Last(points, "rdma_port_change", "device", device); c.Tags["witness"] != "query" {
		t.Errorf("want the witness query, got %v", c)
	}
	if n := eventCount(points, "port_err"); n != 0 {
		t.Errorf("want no event, got %d", n)
	}
	end()
	r.Await("the port is active", 60*time.Second, func(p []rig.Point) bool { return portPoint(p).Text("state_name") == "active" })
}
