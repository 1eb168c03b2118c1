//go:build guest

package fabric

import (
	"slices"

	"rdma_events/tests/rig"
)

// counts are the fields of rdma_fabric and rdma_fabric_port that never fall while a plugin runs, and lane those that only the
// port has.
var (
	counts = []string{
		"sent", "answered", "forward_lost", "reverse_lost", "busy_lost", "unknown_lost",
		"writes", "writes_ok", "writes_late", "write_errors", "reconnects",
	}
	lane = []string{"events", "acked", "released", "spurious", "echoed", "refused", "foreign", "dry"}
)

func isCounter(measurement, field string) bool {
	switch measurement {
	case "rdma_fabric":
		return slices.Contains(counts, field)
	case "rdma_fabric_port":
		return slices.Contains(counts, field) || slices.Contains(lane, field)
	}
	return false
}

// complaints returns what a point says that cannot be.
func complaints(p rig.Point) (all []string) {
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
