package hotplug

import (
	"context"
	"slices"
	"strconv"
	"time"

	"rdma_events/internal/device/verbs"
)

// simulatedHost lists the devices of a simulated host. Times are in ns of the clock passed to NewSimulated.
type simulatedHost interface {
	// Devices returns the names of the devices present at the time at. The
	// order of devices is fixed; a renamed one keeps its place.
	Devices(at int64) []string
	// NextChange returns the first time later than at when Devices may change;
	// false if there is none.
	NextChange(at int64) (int64, bool)
}

// Simulated is the Watcher of a simulated host.
type Simulated struct {
	host simulatedHost
	now  func() int64
	last []verbs.Found
	next int // the index of a device not seen before
}

// NewSimulated returns the watcher of w. now reads the clock of w, which must run at the
// speed of real time.
func NewSimulated(w simulatedHost, now func() int64) *Simulated {
	return &Simulated{host: w, now: now}
}

// Run does the same as Watcher.Run, but reports every change without delay. Nodes
// are called "sim0", "sim1" ..., by Index. The devices are in the order of the simulated
// host, not sorted by name.
func (s *Simulated) Run(ctx context.Context, report func([]verbs.Found)) error {
	for first := true; ; first = false {
		at := s.now()
		if found, changed := s.Scan(at); first || changed {
			report(found)
		}
		if err := s.waitForChange(ctx, at); err != nil {
			return err
		}
	}
}

// Scan returns the devices that are present at the time at, and whether they have
// changed since the last Scan. at must not be earlier than in the last Scan. Scan
// serves callers that simulate the clock. It must not be called while Run runs.
func (s *Simulated) Scan(at int64) (found []verbs.Found, changed bool) {
	found, s.next = applyNames(s.last, s.host.Devices(at), s.next)
	changed = !slices.Equal(found, s.last)
	s.last = found
	return found, changed
}

// waitForChange returns nil at the first change later than at, or ctx.Err() when ctx ends.
func (s *Simulated) waitForChange(ctx context.Context, at int64) error {
	next, ok := s.host.NextChange(at)
	if !ok {
		<-ctx.Done()
		return ctx.Err()
	}
	timer := time.NewTimer(time.Duration(next - s.now()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// applyNames returns the devices with names, and the next free number. A known device comes from
// last. A new device gets the number next. A device is renamed if its place in last has a
// name that is missing now.
func applyNames(last []verbs.Found, names []string, next int) ([]verbs.Found, int) {
	found := make([]verbs.Found, 0, len(names))
	for i, name := range names {
		known := slices.IndexFunc(last, func(f verbs.Found) bool { return f.Name == name })
		switch {
		case known >= 0:
			found = append(found, last[known])
		case len(names) == len(last) && !slices.Contains(names, last[i].Name):
			renamed := last[i]
			renamed.Name = name
			found = append(found, renamed)
		default:
			found = append(found, verbs.Found{Name: name, Index: next, Node: "sim" + strconv.Itoa(next)})
			next++
		}
	}
	return found, next
}
