package cause

import (
	"cmp"
	"fmt"
	"slices"

	"rdma_events/internal/device/verbs"
)

// Delta is a counter that moved between two readings.
type Delta struct {
	Source verbs.CounterSource
	Name   string
	By     uint64 // 0 if it was reset
	Reset  bool   // the value fell: the driver was reloaded, or the counter was cleared or restarted at 0
}

// String returns "rx_prio3_pause +48213", or "rx_prio3_pause reset".
func (d Delta) String() string {
	if d.Reset {
		return d.Name + " reset"
	}
	return fmt.Sprintf("%s +%d", d.Name, d.By)
}

// Deltas are the counters that moved between two readings, ordered by source and name.
type Deltas []Delta

// Compare returns the counters that moved between two readings. A counter that only one reading
// has is unknown in the other, not 0, so it has not moved. Compare excludes levels and sensors, which
// are no counters.
func Compare(before, after verbs.Counters) Deltas {
	var moved Deltas
	for source, counters := range after {
		if source == verbs.CountersHWMon {
			continue
		}
		for name, now := range counters {
			was, known := before[source][name]
			if !known || was == now || rankByName(name) == level {
				continue
			}
			d := Delta{Source: source, Name: name}
			if d.Reset = now < was; !d.Reset {
				d.By = now - was
			}
			moved = append(moved, d)
		}
	}
	slices.SortFunc(moved, func(a, b Delta) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Name, b.Name))
	})
	return moved
}
