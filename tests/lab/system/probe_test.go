//go:build guest

package system

import (
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

const fastProbe = `[[inputs.rdma_events]]
  [inputs.rdma_events.probe]
    interval = "100ms"
    timeout = "90ms"
    vectors = [-1]
    stages = true
    histogram = true
`

func TestProbeFollowsTheLink(t *testing.T) {
	guest.RequireDriver(t, "rxe")
	forEachUser(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		r := start(fastProbe)
		awaitProbe(r, "ud_send", 20)
		guest.IP(t, "link", "set", netdev, "down")
		awaitProbe(r, "flush", 20)
		before := rig.Last(r.Points(), "rdma_cq_probe", "method", "ud_send", "vector", "0").Int("rounds")
		guest.IP(t, "link", "set", netdev, "up")
		points := awaitProbe(r, "ud_send", before+20)
		for _, method := range []string{"ud_send", "flush"} {
			for _, vector := range []string{"0", "1"} {
				requireParity(t, rig.Last(points, "rdma_cq_probe", "method", method, "vector", vector))
			}
		}
		requireHistogram(t, points)
	})
}

// awaitProbe waits until the newest point of a method on vector 0 has ok=1 and more
// than rounds rounds.
func awaitProbe(r *rig.Telegraf, method string, rounds int64) []rig.Point {
	return r.Await(method+" rounds", 30*time.Second, func(p []rig.Point) bool {
		last := rig.Last(p, "rdma_cq_probe", "device", device, "port", "1", "method", method, "vector", "0")
		return last.Int("rounds") > rounds && last.Int("ok") == 1
	})
}

func requireParity(t *testing.T, p rig.Point) {
	t.Helper()
	if p.Int("events") != p.Int("acked")+p.Int("unacked")+p.Int("released") || p.Int("unacked") != 0 {
		t.Errorf("%s: parity does not hold: %v", p.Series(), p.Fields)
	}
	sum := p.Int("successes") + p.Int("errors") + p.Int("lost_events") + p.Int("lost_completions") + p.Int("disturbed")
	if p.Int("rounds") < 1 || sum != p.Int("rounds") {
		t.Errorf("%s: want every round to have one outcome: %v", p.Series(), p.Fields)
	}
	if p.Int("lost_events") != 0 || p.Int("lost_completions") != 0 {
		t.Errorf("%s: want nothing lost: %v", p.Series(), p.Fields)
	}
	t.Logf("%s: rounds %d, errors %d (%q), spurious %d, wake p50 %d p99 %d ns", p.Series(), p.Int("rounds"),
		p.Int("errors"), p.Text("status"), p.Int("spurious"), p.Int("wake_ns_p50"), p.Int("wake_ns_p99"))
}

func requireHistogram(t *testing.T, points []rig.Point) {
	t.Helper()
	// Rounds are counted at once, and their latencies are added half a second
	// later, which is two to three intervals here.
	series := rig.Select(points, "rdma_cq_probe", "method", "ud_send", "vector", "0")
	last := series[max(0, len(series)-5)]
	inf := rig.Last(points, "rdma_cq_probe_histogram", "method", "ud_send", "vector", "0", "le", "+Inf")
	if inf.Int("wake_bucket") < last.Int("successes") {
		t.Errorf("+Inf bucket: want at least %d, got %v", last.Int("successes"), inf.Fields)
	}
}
