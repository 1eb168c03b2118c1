//go:build guest

package system

import (
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

func TestADeviceIsLetGoAndTakenBack(t *testing.T) {
	forEachUser(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		r := start(fastProbe)
		awaitProbe(r, bestMethod(), 5)
		guest.Inject(t, device, guest.PKeyChange, 1, 7)
		r.Await("the counter", 20*time.Second, func(p []rig.Point) bool { return counter(p, "1", "pkey_change") == 7 })

		began := time.Now()
		guest.DeleteLink(t, device)
		within(t, "rdma link delete beside the plugin", time.Since(began), time.Second)
		r.Await("the removal", 20*time.Second, func(p []rig.Point) bool {
			d := rig.Last(p, "rdma_device", "device", device)
			return d.Int("present") == 0 && d.Int("open") == 0 && d.Int("removals") == 1 &&
				d.Text("reason") == "removed" && port(p, device).Text("state_name") == "absent"
		})

		guest.AddLink(t, device, guest.Driver(), netdev)
		began = time.Now()
		r.Await("the device is open again", 30*time.Second, func(p []rig.Point) bool {
			d := rig.Last(p, "rdma_device", "device", device)
			return d.Int("open") == 1 && d.Int("opens") == 2
		})
		within(t, "open again after rdma link add", time.Since(began), 3*time.Second)

		guest.Inject(t, device, guest.PKeyChange, 1, 2)
		points := r.Await("the counter goes on", 20*time.Second, func(p []rig.Point) bool {
			return counter(p, "1", "pkey_change") == 9
		})
		requireCountersNeverFall(t, points)
	})
}

// requireCountersNeverFall looks at every counter of every series.
func requireCountersNeverFall(t *testing.T, points []rig.Point) {
	t.Helper()
	c := counters{}
	for _, p := range points {
		c.look(t, p)
	}
	if len(c) == 0 {
		t.Error("no counter was seen")
	}
}

// counters is the highest value of each counter that was seen, by series and
// field.
type counters map[string]int64

// look asserts that a point's counters are no lower than before.
func (c counters) look(t *testing.T, p rig.Point) {
	t.Helper()
	for _, field := range countersOf(p.Measurement) {
		if _, there := p.Fields[field]; !there {
			continue
		}
		key := p.Series() + " " + field
		if p.Int(field) < c[key] {
			t.Errorf("%s fell from %d to %d", key, c[key], p.Int(field))
		}
		c[key] = p.Int(field)
	}
}

func countersOf(measurement string) []string {
	switch measurement {
	case "rdma_async":
		return []string{"read", "acked", "port_err", "port_active", "pkey_change", "gid_change", "device_fatal"}
	case "rdma_port":
		return []string{"transitions", "flaps", "down_ns", "missed_transitions", "phantom_events"}
	case "rdma_cq_probe":
		return []string{"rounds", "successes", "errors", "lost_events", "lost_completions", "events", "acked", "released"}
	case "rdma_device":
		return []string{"opens", "removals", "fatals", "worker_restarts"}
	}
	return nil
}
