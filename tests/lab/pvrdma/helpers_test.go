//go:build guest

package pvrdma

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rdma_events/tests/lab/guest"
	"rdma_events/tests/rig"
)

const device = guest.PVRDMA

// longestDelay is how much longer an administrator's command may take beside the plugin (docs/reference/devices.md, Removals). The
// tests allow ten times of it.
const longestDelay = time.Second

// defaults is the plugin without any setting, quiet is the plugin without probes.
const (
	defaults = "[[inputs.rdma_events]]\n"
	quiet    = defaults + `  [inputs.rdma_events.probe]
    interval = "0s"
`
)

// unprivileged runs a program as a user without any capability.
var unprivileged = []string{
	"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--",
}

// startTelegraf starts Telegraf with the plugin, and returns once the device is open and its counters are there.
func startTelegraf(t *testing.T, plugin string) *rig.Telegraf {
	t.Helper()
	guest.AddPVRDMA(t)
	r := rig.Start(t, rig.Config{Plugin: plugin, Prefix: unprivileged, Interval: "250ms"})
	awaitOpens(r, 1)
	return r
}

// awaitOpens waits until the device is open for the time n, counted from 1, and counted.
func awaitOpens(r *rig.Telegraf, n int64) []rig.Point {
	return r.Await("the device is open", 60*time.Second, func(p []rig.Point) bool {
		d := devicePoint(p)
		return d.Int("open") == 1 && d.Int("opens") == n && asyncPoint(p).Fields != nil
	})
}

// awaitRemoved waits until the removal n is reported.
func awaitRemoved(r *rig.Telegraf, n int64) []rig.Point {
	return r.Await("the device is removed", 60*time.Second, func(p []rig.Point) bool {
		d := devicePoint(p)
		return d.Int("present") == 0 && d.Int("open") == 0 && d.Int("removals") == n && d.Text("reason") == "removed"
	})
}

func devicePoint(p []rig.Point) rig.Point { return rig.Last(p, "rdma_device", "device", device) }

// asyncPoint returns the newest counters of port 1.
func asyncPoint(p []rig.Point) rig.Point {
	return rig.Last(p, "rdma_async", "device", device, "port", "1")
}

func portPoint(p []rig.Point) rig.Point {
	return rig.Last(p, "rdma_port", "device", device, "port", "1")
}

// probePoint returns the newest counters of a method.
func probePoint(p []rig.Point, method string) rig.Point {
	return rig.Last(p, "rdma_cq_probe", "device", device, "port", "1", "method", method, "vector", "0")
}

// awaitRounds waits until a method has more than so many good rounds, the last of them good.
func awaitRounds(r *rig.Telegraf, method string, rounds int64) []rig.Point {
	return r.Await(method+" rounds", 60*time.Second, func(p []rig.Point) bool {
		return probePoint(p, method).Int("successes") > rounds && probePoint(p, method).Int("ok") == 1
	})
}

// requireNothingLost requires that each round of a method was good.
func requireNothingLost(t *testing.T, p rig.Point) {
	t.Helper()
	t.Logf("%s: %v", p.Series(), p.Fields)
	for _, field := range []string{"errors", "lost_events", "lost_completions", "late"} {
		if p.Int(field) != 0 {
			t.Errorf("%s: want no %s, got %d", p.Series(), field, p.Int(field))
		}
	}
}

// eventCount returns the sum of an event's counters over all series of the device.
func eventCount(p []rig.Point, event string) (sum int64) {
	last := map[string]int64{}
	for _, one := range rig.Select(p, "rdma_async", "device", device) {
		last[one.Series()] = max(0, one.Int(event)) // -1: a series without it
	}
	for _, n := range last {
		sum += n
	}
	return sum
}

// emittedCount returns the sum of the field count over all points of an event.
func emittedCount(p []rig.Point, event string) int64 {
	return rig.Sum(rig.Select(p, "rdma_async_event", "device", device, "event", event), "count")
}

// requireAllAcknowledged requires of each series of the device that what was read was acknowledged.
func requireAllAcknowledged(t *testing.T, points []rig.Point) {
	t.Helper()
	last := map[string]rig.Point{}
	for _, p := range rig.Select(points, "rdma_async", "device", device) {
		last[p.Series()] = p
	}
	if len(last) == 0 {
		t.Error("want counters of events")
	}
	for series, p := range last {
		t.Logf("%s: read %d, acked %d", series, p.Int("read"), p.Int("acked"))
		if p.Int("acked") != p.Int("read") || p.Int("unacked") != 0 {
			t.Errorf("%s: want all acknowledged, got %v", series, p.Fields)
		}
	}
}

// requireEventsCounted raises events and requires that they are counted exactly.
func requireEventsCounted(t *testing.T, r *rig.Telegraf, n int64) {
	t.Helper()
	before := eventCount(r.Points(), "pkey_change")
	guest.RaiseEvent(t, guest.PKeyChange, int(n))
	r.Await("events", 20*time.Second, func(p []rig.Point) bool { return eventCount(p, "pkey_change") == before+n })
}

// ownedNumbers returns the numbers of a process's objects of one kind, from `rdma resource show`. The kernel reports the
// thread that created an object.
func ownedNumbers(t *testing.T, kind string, pid int) (numbers []int) {
	t.Helper()
	for _, o := range guest.Resources(t, kind, device) {
		n, ok := o[map[string]string{"qp": "lqpn", "cq": "cqn"}[kind]].(float64)
		thread, is := o["pid"].(float64)
		if !ok || !is {
			continue
		}
		if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%.0f", pid, thread)); err == nil {
			numbers = append(numbers, int(n))
		}
	}
	return numbers
}

// interruptCount returns the count of one of the device's interrupts in /proc/interrupts. The device's lines are in the
// order of its interrupts.
func interruptCount(t *testing.T, number int) (n int) {
	t.Helper()
	text, err := os.ReadFile("/proc/interrupts")
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool { return !strings.HasSuffix(line, " vmw_pvrdma") })
	if len(lines) != 3 {
		t.Fatalf("want three interrupts of the device, got:\n%s", text)
	}
	for _, word := range strings.Fields(lines[number])[1:] {
		onCPU, err := strconv.Atoi(word)
		if err != nil {
			break
		}
		n += onCPU
	}
	return n
}

// timeTaken returns the time that a function takes.
func timeTaken(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began)
}

// requireNoDelay requires that a command beside the plugin took no longer than it may.
func requireNoDelay(t *testing.T, what string, beside, alone time.Duration) {
	t.Helper()
	t.Logf("%s: %v beside the plugin, %v without it; promised at most %v more", what, beside.Round(time.Millisecond),
		alone.Round(time.Millisecond), longestDelay)
	if beside > alone+10*longestDelay {
		t.Errorf("%s: took %v beside the plugin, %v without it", what, beside, alone)
	}
}
