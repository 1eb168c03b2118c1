//go:build guest

package system

import (
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

// monotonicTime reads CLOCK_MONOTONIC, which setting the wall clock does not change.
func monotonicTime(t *testing.T) time.Duration {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		t.Fatal(err)
	}
	return time.Duration(now.Nano())
}

// setWallClock sets the guest's wall clock ahead, or back if by is negative.
func setWallClock(t *testing.T, by time.Duration) {
	t.Helper()
	guest.RequireGuest(t)
	to := unix.NsecToTimespec(time.Now().Add(by).UnixNano())
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &to); err != nil {
		t.Fatalf("set the clock by %v: %v", by, err)
	}
}

// The test sets the clock an hour back, two hours ahead and one hour back again,
// each time while the link is down. By default Telegraf plans its intervals by the
// wall clock. After the clock was set back it would gather nothing until the clock
// reaches the old time again. Each step is 20 ms short. A program that plans by whole
// seconds of the wall clock would therefore do its work twice within 20 ms, and a
// watchdog would find no heartbeat between two of its checks.
func TestAWallClockThatIsSetDisturbsNoDurationAndNoRate(t *testing.T) {
	guest.RequireGuest(t)
	guest.AddDevice(t, device, guest.Driver(), netdev)
	began := monotonicTime(t)
	r := rig.Start(t, rig.Config{
		Plugin: fastProbe, Prefix: users[1].prefix, Interval: "250ms", Agent: "  round_interval = false",
	})
	defer r.Stop() // before the device is deleted
	awaitOpen(r, device)
	awaitProbe(r, bestMethod(), 10)
	const little = 20 * time.Millisecond
	for i, by := range []time.Duration{-time.Hour - little, 2*time.Hour - little, -time.Hour - little} {
		down := monotonicTime(t)
		guest.IP(t, "link", "set", netdev, "down")
		r.Await("the link is down", 20*time.Second, func(p []rig.Point) bool { return portPoint(p, device).Text("state_name") == "down" })
		setWallClock(t, by)
		at := time.Now().UnixNano()
		guest.Inject(t, device, guest.PKeyChange, 1, 20)
		guest.IP(t, "link", "set", netdev, "up")
		events, changes := int64(20*(i+1)), 2*(i+1)
		points := r.Await("what happened after the clock was set", 30*time.Second, func(p []rig.Point) bool {
			return eventCounter(p, "1", "pkey_change") == events && eventSum(p, device, "pkey_change") == events &&
				portPoint(p, device).Int("transitions") == int64(changes) && len(rig.Select(p, "rdma_port_change")) == changes
		})
		requireTimesFollow(t, r, at)
		change := rig.Last(points, "rdma_port_change", "device", device)
		lasted, atMost := time.Duration(change.Int("lasted_ns")), monotonicTime(t)-down
		if lasted <= 0 || lasted > atMost {
			t.Errorf("clock set by %v: the outage was at most %v, got %v", by, atMost, lasted)
		}
	}
	requireClockHadNoEffect(t, r.Points(), monotonicTime(t)-began)
	if lines := strings.Count(r.Log(), "wall clock set back"); lines != 2 {
		t.Errorf("want a line for each of two times that the clock was set back, got %d:\n%s", lines, r.Log())
	}
}

// requireTimesFollow waits until every measurement of each interval has a point
// with a time that follows the changed wall clock.
func requireTimesFollow(t *testing.T, r *rig.Telegraf, since int64) {
	t.Helper()
	r.Await("time stamps that follow the clock", 20*time.Second, func(points []rig.Point) bool {
		for _, m := range []string{"rdma_async", "rdma_port", "rdma_cq_probe", "rdma_device", "rdma_collector"} {
			if age := time.Duration(rig.Last(points, m).Time - since); age <= 0 || age > time.Minute {
				return false
			}
		}
		return true
	})
}

// requireClockHadNoEffect requires that no duration is longer than the test, that
// no rate is higher than possible in the test, and that no worker was replaced as
// hung.
func requireClockHadNoEffect(t *testing.T, points []rig.Point, was time.Duration) {
	t.Helper()
	durations, fastest := 0, 0.0
	instants := []string{"first_ns", "since_ns"}
	for _, p := range points {
		for name, value := range p.Fields {
			ns, isInt := value.(int64)
			if isInt && strings.Contains(name, "_ns") && !slices.Contains(instants, name) {
				durations++
				if ns < 0 || time.Duration(ns) > was {
					t.Errorf("%s: %s is %v in a test of %v", p.Series(), name, time.Duration(ns), was)
				}
			}
			if rate, isRate := value.(float64); isRate && strings.HasSuffix(name, "_rate") {
				fastest = max(fastest, rate)
				if rate < 0 || rate > 1000 {
					t.Errorf("%s: %s is %v", p.Series(), name, rate)
				}
			}
		}
	}
	if durations == 0 || fastest == 0 {
		t.Errorf("want durations, and rates of a probe each 100 ms, got %d of them and at most %v", durations, fastest)
	}
	d := rig.Last(points, "rdma_device", "device", device)
	requireEqual(t, "opens", 1, d.Int("opens"))
	requireEqual(t, "restarts", 0, d.Int("worker_restarts"))
	rig.RequireCountersNeverFall(t, points)
}
