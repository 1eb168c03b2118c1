//go:build guest

package fabric

import (
	"fmt"

	"rdma_events/internal/telemetry/measure"
	"rdma_events/tests/rig"
)

// counters are the fields of rdma_fabric and rdma_fabric_port that never fall while a plugin runs, by measurement.
var counters = countersOf("rdma_fabric", "rdma_fabric_port")

// countersOf returns the cumulative fields of measurements.
func countersOf(measurements ...string) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for _, m := range measurements {
		all[m] = map[string]bool{}
	}
	for _, m := range measure.All() {
		for _, f := range m.Fields {
			if of, ok := all[m.Name]; ok && f.Cumulative {
				of[f.Name] = true
			}
		}
	}
	for name, fields := range all {
		if !fields["sent"] {
			panic(fmt.Sprintf("%s has no counter of probes", name))
		}
	}
	return all
}

func isCounter(measurement, field string) bool { return counters[measurement][field] }

// pointContradictions returns the contradictions between the fields of a point.
func pointContradictions(p rig.Point) (all []string) {
	sum := func(fields ...string) (n int64) {
		for _, f := range fields {
			n += p.Int(f)
		}
		return n
	}
	switch p.Measurement {
	case "rdma_fabric_port":
		if p.Int("events") != sum("acked", "unacked", "released") {
			all = append(all, "events are not acked, unacked or released")
		}
		fallthrough
	case "rdma_fabric":
		if p.Int("sent") != sum("answered", "forward_lost", "reverse_lost", "busy_lost", "unknown_lost", "pending") {
			all = append(all, "probes are neither answered, lost nor pending")
		}
		if p.Int("writes") < sum("writes_ok", "write_errors") {
			all = append(all, "more writes have ended than were posted")
		}
	}
	return all
}
