package rig

import (
	"slices"
	"strings"
	"testing"
)

// counters lists, by measurement, the fields that never fall while a plugin
// runs. The counters of rdma_async are not in it: they have the names of event
// types.
var counters = map[string][]string{
	"rdma_port": {"transitions", "flaps", "down_ns", "missed_transitions", "phantom_events"},
	"rdma_cq_probe": {
		"rounds", "successes", "errors", "lost_events", "lost_completions", "events", "acked", "released", "spurious", "late", "resent", "disturbed",
	},
	"rdma_cq_probe_histogram": {"wake_bucket", "wake_ns_sum"},
	"rdma_app_async":          {"processes", "queued", "read", "discarded", "skipped", "destroyed_unacked"},
	"rdma_tracer":             {"restarts", "gaps", "blind_ns", "lost_records", "map_full", "cpu_ns"},
	"rdma_device":             {"opens", "removals", "unplanned_removals", "function_removals", "fatals", "worker_restarts", "crashes"},
	"rdma_collector": {
		"worker_restarts", "events", "merged_points", "dropped_points", "skipped_intervals", "uptime_ns", "cpu_ns",
		"recorded", "record_errors", "record_lost",
	},
}

func isCounter(measurement, field string) bool {
	if measurement == "rdma_async" {
		return field != "unacked" && !strings.Contains(field, "_ns_") && !strings.HasSuffix(field, "_rate")
	}
	return slices.Contains(counters[measurement], field)
}

// Counters has the last value of every counter that Look has seen, by series
// and field.
type Counters map[string]int64

// Look fails the test when a counter in p is below its last value, and stores
// the values of p.
func (c Counters) Look(t testing.TB, p Point) {
	t.Helper()
	series := p.Series()
	for field := range p.Fields {
		if !isCounter(p.Measurement, field) {
			continue
		}
		key := series + " " + field
		if p.Int(field) < c[key] {
			t.Errorf("%s fell from %d to %d", key, c[key], p.Int(field))
		}
		c[key] = p.Int(field)
	}
}

// RequireCountersNeverFall checks every counter of every series in the points of
// one plugin. The test fails when a counter falls, or when there is no counter.
func RequireCountersNeverFall(t testing.TB, points []Point) {
	t.Helper()
	c := Counters{}
	for _, p := range points {
		c.Look(t, p)
	}
	if len(c) == 0 {
		t.Error("no counter was seen")
	}
}

// Lives divides points by the plugin process that they come from. ends are the
// times in unix ns at which the plugins were killed, in order.
func Lives(points []Point, ends []int64) [][]Point {
	runs := make([][]Point, len(ends)+1)
	for _, p := range points {
		n, _ := slices.BinarySearch(ends, p.Time)
		runs[n] = append(runs[n], p)
	}
	return runs
}
