//go:build guest

package system

import (
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

func TestFiftyDropsOf40ms(t *testing.T) {
	forEachUser(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		r := start(quiet)
		flaps := guest.Flaps{Count: 50, Down: 40 * time.Millisecond, Period: 300 * time.Millisecond}
		stamps, err := guest.FlapLink(t.Context(), netdev, flaps)
		if err != nil {
			t.Fatal(err)
		}
		points := r.Await("50 flaps", 30*time.Second, func(p []rig.Point) bool {
			return port(p, device).Int("flaps") >= 50 && len(rig.Select(p, "rdma_port_change")) >= 100 &&
				async(p, device).Int("port_active") >= 50
		})
		requireCounts(t, points, 50)
		changes := rig.Select(points, "rdma_port_change")
		if len(changes) != 100 {
			t.Fatalf("want 100 points of rdma_port_change, got %d", len(changes))
		}
		requireDurations(t, changes, stamps)
	})
}

func TestADropEvery20ms(t *testing.T) {
	forEachUser(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		r := start(quiet)
		flaps := guest.Flaps{Count: 500, Down: 10 * time.Millisecond, Period: 20 * time.Millisecond}
		stamps, err := guest.FlapLink(t.Context(), netdev, flaps)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("500 drops in %v", time.Duration(stamps[len(stamps)-1].After-stamps[0].Before))
		points := r.Await("500 flaps", 30*time.Second, func(p []rig.Point) bool {
			return port(p, device).Int("flaps") >= 500 && async(p, device).Int("port_active") >= 500 &&
				rig.Sum(rig.Select(p, "rdma_port_change"), "transitions") >= 1000
		})
		requireCounts(t, points, 500)
	})
}

// requireCounts asserts what n drops must have left behind.
func requireCounts(t *testing.T, points []rig.Point, n int64) {
	t.Helper()
	a, p := async(points, device), port(points, device)
	changes := rig.Select(points, "rdma_port_change")
	for _, c := range []struct {
		what      string
		want, got int64
	}{
		{"port_err", n, a.Int("port_err")},
		{"port_active", n, a.Int("port_active")},
		{"acknowledged", a.Int("read"), a.Int("acked")},
		{"unacked", 0, a.Int("unacked")},
		{"sum of count of port_err", n, eventSum(points, device, "port_err")},
		{"sum of count of port_active", n, eventSum(points, device, "port_active")},
		{"flaps", n, p.Int("flaps")},
		{"transitions", 2 * n, p.Int("transitions")},
		{"transitions told as changes", 2 * n, rig.Sum(changes, "transitions")},
		{"up", 1, p.Int("up")},
		{"missed_transitions", 0, p.Int("missed_transitions")},
	} {
		if c.got != c.want {
			t.Errorf("%s: want %d, got %d", c.what, c.want, c.got)
		}
	}
	if p.Text("state_name") != "active" {
		t.Errorf("state at the end: want active, got %q", p.Text("state_name"))
	}
	t.Logf("phantom_events %d", p.Int("phantom_events"))
}

// requireDurations holds lasted_ns against the stamps of the program that
// flapped the link: 95 % within 2 ms plus 5 %.
func requireDurations(t *testing.T, changes []rig.Point, stamps []guest.LinkChange) {
	t.Helper()
	var off []int64
	good := 0
	for i := 1; i < len(changes); i++ {
		want := middle(stamps[i]) - middle(stamps[i-1])
		got := changes[i].Int("lasted_ns")
		diff := max(got-want, want-got)
		off = append(off, diff)
		if diff <= 2_000_000+want/20 {
			good++
		}
	}
	t.Logf("lasted_ns off by: median %v, p95 %v, worst %v", time.Duration(quantile(off, 0.5)),
		time.Duration(quantile(off, 0.95)), time.Duration(quantile(off, 1)))
	if good*100 < len(off)*95 {
		t.Errorf("want 95 %% of the durations within 2 ms plus 5 %%, got %d of %d", good, len(off))
	}
}

func middle(c guest.LinkChange) int64 { return c.Before + (c.After-c.Before)/2 }
