package timeline

import (
	"fmt"

	"rdma_events/internal/telemetry/measure"
)

// maxHolders is how many changes of holders an interval records. Further ones follow with the next interval.
const maxHolders = 200

// Names of the tag app of rdma_app that are no application.
const (
	OtherApps   = "other"   // what is above max_series
	UnknownApps = "unknown" // objects whose owner cannot be seen
)

// Held holds how many processes of a unit hold objects of a device.
type Held struct {
	Processes int64 `json:"processes"` // 0: none, any more or that can be seen
	// Gone is set in the record of the end.
	Gone bool `json:"gone,omitempty"`
}

// line returns the change in words, as in "holds mlx5_0, 4 processes".
func (h *Held) line(device string) string {
	switch {
	case h.Gone:
		return "no longer holds " + device
	case h.Processes == 1:
		return "holds " + device + ", 1 process"
	case h.Processes > 0:
		return fmt.Sprintf("holds %s, %d processes", device, h.Processes)
	}
	return "holds " + device
}

// IsOfUnknownUnit reports whether the holder may belong to any unit.
func (a *App) IsOfUnknownUnit() bool {
	return a.Unit == "" && (a.Name == OtherApps || a.Name == UnknownApps)
}

// holders remembers which units hold objects of which devices, to record when one begins and ends to do so. Applications without a
// unit are left out, but for those that may belong to any.
type holders map[measure.Key]bool

// changes returns a record for each point of an interval that begins or ends to hold a device. Holders without a point in the interval,
// as those of a device that is gone, are forgotten.
func (h holders) changes(points []measure.Point) []Record {
	var all []Record
	seen := map[measure.Key]bool{}
	for a := range measure.OfType[*measure.App](points) {
		if a.Unit == "" && a.App != OtherApps && a.App != UnknownApps {
			continue
		}
		key := a.Key()
		seen[key] = true
		holds, known := holdsObjects(a)
		if !known || holds == h[key] || len(all) == maxHolders {
			continue
		}
		r := appRecord(KindAppHolds, a, a.Device)
		r.App, r.Held = newApp(App{Name: a.App, Unit: a.Unit}), &Held{Processes: a.Processes.Count, Gone: !holds}
		all = append(all, r)
		if holds {
			h[key] = true
		} else {
			delete(h, key)
		}
	}
	for key := range h {
		if !seen[key] {
			delete(h, key)
		}
	}
	return all
}

// holdsObjects reports whether an application holds an object, and whether that is known.
func holdsObjects(a *measure.App) (holds, known bool) {
	for _, n := range []measure.Held{a.Processes, a.Contexts, a.PDs, a.CQs, a.SRQs, a.QPs} {
		known = known || n.Known
		holds = holds || n.Count > 0
	}
	return holds, known
}
