//go:build guest

package system

import (
	"fmt"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

func TestOnIWARPTheProbeFlushesWhateverTheLinkDoes(t *testing.T) {
	guest.RequireDriver(t, "siw")
	forEachUser(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		r := start(fastProbe)
		points := awaitProbe(r, "flush", 20)
		r.AwaitLog("rc_write on iWARP, whose queue pairs need a connection manager", 10*time.Second)
		guest.IP(t, "link", "set", netdev, "down")
		before := vectorRounds(points, "0")
		points = awaitProbe(r, "flush", before+20)
		guest.IP(t, "link", "set", netdev, "up")
		points = awaitProbe(r, "flush", vectorRounds(points, "0")+20)
		for _, vector := range []string{"0", "1"} {
			requireParity(t, rig.Last(points, "rdma_cq_probe", "method", "flush", "vector", vector))
		}
		if others := rig.Select(points, "rdma_cq_probe", "method", "rc_write"); len(others) > 0 {
			t.Errorf("want no series of rc_write, got %v", others[0])
		}
		if d := rig.Last(points, "rdma_device", "device", device); d.Text("transport") != "iwarp" || d.Text("driver") != "siw" {
			t.Errorf("want an iwarp device of siw, got %v", d.Fields)
		}
	})
}

func vectorRounds(points []rig.Point, vector string) int64 {
	return rig.Last(points, "rdma_cq_probe", "device", device, "vector", vector).Int("rounds")
}

// If the configuration demands a method that iWARP does not support, there is no probe, but everything else works.
func TestOnIWARPAMethodThatNeedsAConnectionIsRefusedInOneLine(t *testing.T) {
	guest.RequireDriver(t, "siw")
	for _, method := range []string{"rc_write", "ud_send"} {
		t.Run(method, func(t *testing.T) {
			runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
				r := start(fmt.Sprintf(`[[inputs.rdma_events]]
  [inputs.rdma_events.probe]
    interval = "100ms"
    timeout = "90ms"
    method = %q
`, method))
				r.AwaitLog(method+" on iWARP, whose queue pairs need a connection manager", 20*time.Second)
				guest.Inject(t, device, guest.PKeyChange, 1, 3)
				points := r.Await("events go on", 20*time.Second, func(p []rig.Point) bool {
					return eventCounter(p, "1", "pkey_change") == 3
				})
				if probes := rig.Select(points, "rdma_cq_probe"); len(probes) > 0 {
					t.Errorf("want no series of a probe, got %v", probes[0])
				}
				requireOneLine(t, r, device, method)
			})
		})
	}
}
