package timeline

import (
	"fmt"

	"rdma_events/internal/telemetry/measure"
)

// maxHolders is the maximum number of changes of holders that one interval records. Further changes follow with the next
// interval.
const maxHolders = 200

// Values of the tag app of rdma_app that do not name an application.
const (
	OtherApps   = "other"   // all applications above max_series
	UnknownApps = "unknown" // objects whose owner is not visible
)

// Held tells that a unit holds objects of a device, or no longer does.
type Held struct {
	Processes int64 `json:"processes"` // processes that hold an object; 0: none, or none that is visible
	// Gone is set if the unit no longer holds objects.
	Gone bool `json:"gone,omitempty"`
}

// line returns the change in words, such as "holds mlx5_0, 4 processes".
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

// IsOfUnknownUnit reports whether the application may belong to any unit.
func (a *App) IsOfUnknownUnit() bool {
	return a.Unit == "" && (a.Name == OtherApps || a.Name == UnknownApps)
}

// holders remembers which units hold objects of which devices, to record when a unit starts or stops holding them. It ignores
// applications without a unit, except those that may belong to any unit.
type holders map[measure.Key]bool

// changes takes the points of an interval, and returns a record for each unit that starts or stops holding objects of a device.
// It forgets holders without a point in the interval, for example because the device was removed.
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
