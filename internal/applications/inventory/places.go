package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"rdma_events/internal/applications/identity"
)

// keepPlaceFor is the time for which a series without a process keeps its place.
const keepPlaceFor = 10 * time.Minute

// ErrOption is the error of invalid Options.
var ErrOption = errors.New("is not valid")

// Options defines how processes are grouped into series.
type Options struct {
	By        []string // "app", or "app" and "unit"
	MaxSeries int      // maximum number of series of all devices, without other, unknown and kernel; at least 1
	Events    bool     // there is a tracer
}

// series identifies the series of an application's points.
type series struct{ device, app, unit string }

// places limits the number of series. A series with a place has points of its own, both for objects and for events, so that the objects and
// the events of a process have the same name.
type places struct {
	byUnit      bool
	max         int
	assigned    map[series]*place
	assignments int // number of assignments so far

	used     func() map[series]bool // returns the series that have a process
	released func(series)           // is called when a series loses its place to another one
}

// place is one of MaxSeries places.
type place struct {
	rank     int       // number of the assignment
	lastUsed time.Time // last time at which the series was known to have a process
}

func newPlaces(o Options) (places, error) {
	if o.MaxSeries < 1 {
		return places{}, fmt.Errorf("max_series = %d %w: want 1 or more", o.MaxSeries, ErrOption)
	}
	byUnit := slices.Equal(o.By, []string{"app", "unit"})
	if !byUnit && !slices.Equal(o.By, []string{"app"}) {
		return places{}, fmt.Errorf(`by = %q %w: want ["app"] or ["app", "unit"]`, o.By, ErrOption)
	}
	return places{byUnit: byUnit, max: o.MaxSeries, assigned: map[series]*place{}}, nil
}

func isSpecial(app string) bool { return app == other || app == unknown || app == kernel }

// seriesOf returns the series of a process, whether or not it has a place.
func (p *places) seriesOf(device string, who *identity.Process) series {
	s := series{device: device, app: cmp.Or(who.Comm, unknown)}
	if p.byUnit && !isSpecial(s.app) {
		s.unit = who.Unit
	}
	return s
}

// assign assigns places to series that have none, as long as there are free ones.
func (p *places) assign(without []series, at time.Time) {
	if len(without) == 0 {
		return
	}
	used := p.used()
	for _, s := range without {
		if p.assigned[s] == nil && (len(p.assigned) < p.max || p.freeOldest(used, at)) {
			p.assignments++
			p.assigned[s] = &place{rank: p.assignments, lastUsed: at}
		}
	}
}

// assignOrOther assigns a place to a series if possible. It returns the series in which the process is counted: s, or the series other.
func (p *places) assignOrOther(s series, at time.Time) series {
	if isSpecial(s.app) {
		return s
	}
	if p.assigned[s] == nil {
		p.assign([]series{s}, at)
	}
	if p.assigned[s] == nil {
		return series{device: s.device, app: other}
	}
	return s
}

// touch records that a series has a process at a time.
func (p *places) touch(s series, at time.Time) {
	if held := p.assigned[s]; held != nil && at.After(held.lastUsed) {
		held.lastUsed = at
	}
}

// freeOldest frees the place of the series that has been without a process for the longest time, if that exceeds keepPlaceFor. It returns
// false if there is no such series.
func (p *places) freeOldest(used map[series]bool, at time.Time) bool {
	var oldest series
	var found *place
	for s, held := range p.assigned {
		if used[s] || at.Sub(held.lastUsed) < keepPlaceFor {
			continue
		}
		if found == nil || held.yieldsBefore(found) {
			oldest, found = s, held
		}
	}
	if found == nil {
		return false
	}
	delete(p.assigned, oldest)
	p.released(oldest)
	return true
}

// yieldsBefore reports whether a place has to be freed before another one.
func (p *place) yieldsBefore(o *place) bool {
	if !p.lastUsed.Equal(o.lastUsed) {
		return p.lastUsed.Before(o.lastUsed)
	}
	return p.rank < o.rank
}
