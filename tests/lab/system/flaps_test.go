//go:build guest

package system

import (
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

func TestFiftyDropsOf40ms(t *testing.T) {
	for _, u := range testedUsers() {
		t.Run(u.name, func(t *testing.T) {
			guest.OnOneCPU(t)
			guest.AddDevice(t, device, guest.Driver(), netdev)
			guest.WithoutLinkLocal(t, netdev)
			requireFiftyDrops(t, startAs(t, u.prefix, quiet, "1s"))
		})
	}
}

// requireFiftyDrops requires that each of fifty drops is reported, in order and with its duration.
func requireFiftyDrops(t *testing.T, r *rig.Telegraf) {
	t.Helper()
	const n = 50
	flaps := guest.Flaps{Count: n, Down: 40 * time.Millisecond, Period: 300 * time.Millisecond}
	stamps, err := guest.FlapLink(t.Context(), netdev, flaps)
	if err != nil {
		t.Fatal(err)
	}
	points := r.Await("fifty flaps", 30*time.Second, func(p []rig.Point) bool {
		return portPoint(p, device).Int("flaps") >= n && len(rig.Select(p, "rdma_port_change")) >= 2*n &&
			asyncPoint(p, device).Int("port_active") >= n
	})
	requireEvents(t, points, n)
	requireState(t, points, n)
	requireEqual(t, "missed_transitions", 0, portPoint(points, device).Int("missed_transitions"))
	changes := rig.Select(points, "rdma_port_change")
	if len(changes) != 2*n {
		t.Fatalf("want %d points of rdma_port_change, got %d", 2*n, len(changes))
	}
	for i, change := range changes {
		if want := []string{"down", "active"}[i%2]; change.Tags["state_to"] != want {
			t.Errorf("change %d: want one to %s, got %v", i, want, change.Tags)
		}
	}
	requireDurations(t, changes, stamps)
}

func TestADropEvery20ms(t *testing.T) {
	runUnprivileged(t, func(t *testing.T, start func(string) *rig.Telegraf) {
		r := start(quiet)
		flaps := guest.Flaps{Count: 500, Down: 10 * time.Millisecond, Period: 20 * time.Millisecond}
		stamps, err := guest.FlapLink(t.Context(), netdev, flaps)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("500 drops in %v", time.Duration(stamps[len(stamps)-1].After-stamps[0].Before))
		// The kernel's work queue may swap two events that are this close. Then
		// two equal events follow each other. The second one is a phantom, and its
		// drop is counted in missed_transitions if the driver counts link_downed.
		points := r.Await("500 drops", 30*time.Second, func(p []rig.Point) bool {
			last := portPoint(p, device)
			return asyncPoint(p, device).Int("port_active") >= 500 && reportedDrops(last) >= 500 &&
				eventSum(p, device, "port_err") >= 500 && eventSum(p, device, "port_active") >= 500 &&
				rig.Sum(rig.Select(p, "rdma_port_change"), "transitions") >= last.Int("transitions")
		})
		last := portPoint(points, device)
		requireEvents(t, points, 500)
		requireState(t, points, last.Int("flaps"))
		requireEqual(t, "drops reported as flaps or missed", 500, reportedDrops(last))
		if _, counted := last.Fields["link_downed"]; counted {
			requireEqual(t, "link_downed", 500, last.Int("link_downed"))
		}
		t.Logf("flaps %d, missed_transitions %d, phantom_events %d, link_downed %d", last.Int("flaps"),
			last.Int("missed_transitions"), last.Int("phantom_events"), last.Int("link_downed"))
	})
}

// reportedDrops returns how many drops a port reports, as flaps or as missed transitions. Without link_downed (siw) a
// drop whose events were swapped is reported as two phantom events: one has the state before the drop, the other one
// the state after it.
func reportedDrops(p rig.Point) int64 {
	if _, counted := p.Fields["link_downed"]; counted {
		return p.Int("flaps") + p.Int("missed_transitions")
	}
	return p.Int("flaps") + p.Int("phantom_events")/2
}

// requireEvents asserts that the events of n drops were read, acknowledged and
// reported.
func requireEvents(t *testing.T, points []rig.Point, n int64) {
	t.Helper()
	a := asyncPoint(points, device)
	requireEqual(t, "port_err", n, a.Int("port_err"))
	requireEqual(t, "port_active", n, a.Int("port_active"))
	requireEqual(t, "acknowledged", a.Int("read"), a.Int("acked"))
	requireEqual(t, "unacked", 0, a.Int("unacked"))
	requireEqual(t, "sum of count of port_err", n, eventSum(points, device, "port_err"))
	requireEqual(t, "sum of count of port_active", n, eventSum(points, device, "port_active"))
}

// requireState asserts that a port flapped n times and is up.
func requireState(t *testing.T, points []rig.Point, n int64) {
	t.Helper()
	p := portPoint(points, device)
	requireEqual(t, "flaps", n, p.Int("flaps"))
	requireEqual(t, "transitions", 2*n, p.Int("transitions"))
	requireEqual(t, "transitions reported as changes", 2*n, rig.Sum(rig.Select(points, "rdma_port_change"), "transitions"))
	requireEqual(t, "up", 1, p.Int("up"))
	if p.Text("state_name") != "active" {
		t.Errorf("state at the end: want active, got %q", p.Text("state_name"))
	}
}

func requireEqual(t *testing.T, what string, want, got int64) {
	t.Helper()
	if got != want {
		t.Errorf("%s: want %d, got %d", what, want, got)
	}
}

// standstill is longer than the time for which an emulated machine stops while other processes use the processors:
// 0.17 s has been seen with a load of eight.
const standstill = time.Second

// requireDurations compares lasted_ns with the stamps of the program that flapped the link. The promised accuracy, 2 ms
// plus 5 % for 95 % of the drops, is checked by make bench, which runs alone: here the machine may stop during a drop.
func requireDurations(t *testing.T, changes []rig.Point, stamps []guest.LinkChange) {
	t.Helper()
	var off, width []int64
	for i := 1; i < len(changes); i++ {
		want := middleOfChange(stamps[i]) - middleOfChange(stamps[i-1])
		got := changes[i].Int("lasted_ns")
		diff := max(got-want, want-got)
		width, off = append(width, changeDuration(stamps[i])), append(off, diff)
		if got <= 0 || diff > standstill.Nanoseconds() {
			t.Errorf("change %d: lasted_ns is %v, and %v by the stamps", i, time.Duration(got), time.Duration(want))
		}
	}
	t.Logf("lasted_ns off by: median %v, p95 %v, worst %v", time.Duration(quantile(off, 0.5)),
		time.Duration(quantile(off, 0.95)), time.Duration(quantile(off, 1)))
	t.Logf("the change itself took: median %v, p95 %v, worst %v", time.Duration(quantile(width, 0.5)),
		time.Duration(quantile(width, 0.95)), time.Duration(quantile(width, 1)))
}

func middleOfChange(c guest.LinkChange) int64 { return c.Before + changeDuration(c)/2 }

func changeDuration(c guest.LinkChange) int64 { return c.After - c.Before }
