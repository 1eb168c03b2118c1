package hotplug

import (
	"context"
	"slices"
	"strconv"
	"time"

	"rdma_events/internal/device/verbs"
)

// world is a simulated host. Times are in ns of the clock given to NewSimulated.
type world interface {
	// Devices returns the names of the devices present at the time at. The
	// order of devices is fixed; a renamed one keeps its place.
	Devices(at int64) []string
	// NextChange returns the first time later than at when Devices may change;
	// false if there is none.
	NextChange(at int64) (int64, bool)
}

// Simulated is the Watcher of a simulated host.
type Simulated struct {
	world world
	now   func() int64
	last  []verbs.Found
	next  int // the index of a device not seen before
}

// NewSimulated returns the watcher of w. now is its clock, which must run at the
// speed of real time.
func NewSimulated(w world, now func() int64) *Simulated {
	return &Simulated{world: w, now: now}
}

// Run does the same as Watcher.Run, but reports every change without delay. Nodes
// are called "sim0", "sim1" ..., by Index. The devices are in the world's order, not
// sorted by name.
func (s *Simulated) Run(ctx context.Context, report func([]verbs.Found)) error {
	for first := true; ; first = false {
		at := s.now()
		if found, changed := s.Look(at); first || changed {
			report(found)
		}
		if err := s.wait(ctx, at); err != nil {
			return err
		}
	}
}

// Look returns the devices that are present at the time at, and whether they have
// changed since the last Look. at must not be earlier than in the last Look. Look
// is for a caller that has no clock to wait by. It must not be called while Run
// runs.
func (s *Simulated) Look(at int64) (found []verbs.Found, changed bool) {
	found, s.next = follow(s.last, s.world.Devices(at), s.next)
	changed = !slices.Equal(found, s.last)
	s.last = found
	return found, changed
}

// wait returns at the first change later than at, or with ctx.Err().
func (s *Simulated) wait(ctx context.Context, at int64) error {
	next, ok := s.world.NextChange(at)
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

// follow turns names into devices: known ones from last, new ones, numbered from
// next on, and renamed ones. A renamed device is at the place of a name of last that
// is missing now.
func follow(last []verbs.Found, names []string, next int) ([]verbs.Found, int) {
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
