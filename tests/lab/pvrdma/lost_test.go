//go:build guest

package pvrdma

import (
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

func TestLossesOfTheProbeHaveTheirVerdict(t *testing.T) {
	for _, row := range []struct {
		name   string
		begin  func(t *testing.T) (end func())
		lost   string // the field that grows
		others []string
	}{
		{
			"interrupt held back", func(t *testing.T) func() { return guest.HoldInterrupt(t, guest.InterruptOfCompletions) },
			"lost_events", []string{"lost_completions", "errors"},
		},
		{
			"interrupt never raised", func(t *testing.T) func() { return guest.OrderPVHost(t, guest.InterruptsLost, guest.InterruptsRaised) },
			"lost_events", []string{"lost_completions", "errors"},
		},
		{
			"datagrams lost", func(t *testing.T) func() { return guest.OrderPVHost(t, guest.DatagramsLost, guest.DatagramsDelivered) },
			"lost_completions", []string{"lost_events", "errors"},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := startTelegraf(t, defaults)
			requireNothingLost(t, probePoint(awaitRounds(r, "ud_send", 3), "ud_send"))
			end := row.begin(t)
			points := r.Await(row.lost, 60*time.Second, func(p []rig.Point) bool {
				return probePoint(p, "ud_send").Int(row.lost) >= 3 && probePoint(p, "ud_send").Int("ok") == 0
			})
			for _, other := range row.others {
				if n := probePoint(points, "ud_send").Int(other); n != 0 {
					t.Errorf("want no %s, got %d", other, n)
				}
			}
			end()
			good := probePoint(points, "ud_send").Int("successes")
			points = awaitRounds(r, "ud_send", good+5)
			settled := probePoint(points, "ud_send").Int(row.lost)
			points = awaitRounds(r, "ud_send", probePoint(points, "ud_send").Int("successes")+5)
			if n := probePoint(points, "ud_send").Int(row.lost); n != settled {
				t.Errorf("want no more %s, got %d after %d", row.lost, n, settled)
			}
			if d := devicePoint(points); d.Int("opens") != 1 || d.Int("worker_restarts") != 0 {
				t.Errorf("want the device open all the time, got %v", d.Fields)
			}
			r.Stop()
		})
	}
}
