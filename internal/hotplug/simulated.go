package hotplug

import (
	"context"
	"slices"
	"strconv"
	"time"

	"rdma_events/internal/verbs"
)

// world is a simulated host. Times are of the clock given to NewSimulated, ns.
type world interface {
	// Devices returns the names of the devices present at that moment. The
	// order of devices is fixed; a renamed one keeps its place.
	Devices(at int64) []string
	// NextChange returns the first moment later than at when Devices may have
	// changed; false if there is none.
	NextChange(at int64) (int64, bool)
}

// Simulated is the Watcher of a simulated world.
type Simulated struct {
	world world
	now   func() int64
	last  []verbs.Found
	next  int // the index of a device not seen before
}

// NewSimulated returns the watcher of w. now is its clock; it advances as time
// does.
func NewSimulated(w world, now func() int64) *Simulated {
	return &Simulated{world: w, now: now}
}

// Run does what Watcher.Run does, on every change and without delay. Nodes are
// called "sim0", "sim1" ..., by Index; the world's order stands for that by
// name.
func (s *Simulated) Run(ctx context.Context, report func([]verbs.Found)) error {
	for first := true; ; first = false {
		at := s.now()
		if found, news := s.Look(at); first || news {
			report(found)
		}
		if err := s.wait(ctx, at); err != nil {
			return err
		}
	}
}

// Look returns the devices that are present at a moment, not before that of
// the last Look, and whether there is anything new since. It is for who has no
// clock to wait by, and not to be called while Run does.
func (s *Simulated) Look(at int64) (found []verbs.Found, news bool) {
	found, s.next = follow(s.last, s.world.Devices(at), s.next)
	news = !slices.Equal(found, s.last)
	s.last = found
	return found, news
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

// follow turns names into devices: those of last, the renamed ones, which stand
// where a name of last is missing now, and new ones, numbered from next on.
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
