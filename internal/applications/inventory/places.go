package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"rdma_events/internal/applications/identity"
)

// keep is how long a series without a process keeps its place.
const keep = 10 * time.Minute

// ErrOption says that Options are not valid.
var ErrOption = errors.New("is not valid")

// Options are how processes become series.
type Options struct {
	By        []string // "app", or "app" and "unit"
	MaxSeries int      // of all devices together, without other, unknown and kernel; at least 1
	Events    bool     // there is a tracer
}

// series is what a point of an application is of.
type series struct{ device, app, unit string }

// places are the series that have a place of their own, of objects and of events alike: what a process holds and what it
// experiences is found under one name.
type places struct {
	byUnit  bool
	max     int
	given   map[series]*place
	arrived int // places given so far

	used    func() map[series]bool // returns the series that have a process
	yielded func(series)           // is called for each place that is given to another series
}

// place is one of the MaxSeries.
type place struct {
	since int       // rank of arrival
	held  time.Time // when the series was last seen to have a process
}

func newPlaces(o Options) (places, error) {
	if o.MaxSeries < 1 {
		return places{}, fmt.Errorf("max_series = %d %w: want 1 or more", o.MaxSeries, ErrOption)
	}
	byUnit := slices.Equal(o.By, []string{"app", "unit"})
	if !byUnit && !slices.Equal(o.By, []string{"app"}) {
		return places{}, fmt.Errorf(`by = %q %w: want ["app"] or ["app", "unit"]`, o.By, ErrOption)
	}
	return places{byUnit: byUnit, max: o.MaxSeries, given: map[series]*place{}}, nil
}

func isSpecial(app string) bool { return app == other || app == unknown || app == kernel }

// name returns the series of a process, whether it has a place or not.
func (p *places) name(device string, who *identity.Process) series {
	s := series{device: device, app: cmp.Or(who.Comm, unknown)}
	if p.byUnit && !isSpecial(s.app) {
		s.unit = who.Unit
	}
	return s
}

// give gives places to series that have none, as far as there are any.
func (p *places) give(without []series, at time.Time) {
	if len(without) == 0 {
		return
	}
	used := p.used()
	for _, s := range without {
		if p.given[s] == nil && (len(p.given) < p.max || p.free(used, at)) {
			p.arrived++
			p.given[s] = &place{since: p.arrived, held: at}
		}
	}
}

// seat returns the series in which a process is counted: its own, or that of the others.
func (p *places) seat(s series, at time.Time) series {
	if isSpecial(s.app) {
		return s
	}
	if p.given[s] == nil {
		p.give([]series{s}, at)
	}
	if p.given[s] == nil {
		return series{device: s.device, app: other}
	}
	return s
}

// hold notes that a series has a process.
func (p *places) hold(s series, at time.Time) {
	if held := p.given[s]; held != nil && at.After(held.held) {
		held.held = at
	}
}

// free takes the place of the series that has been without a process for the longest time, if that is long enough.
func (p *places) free(used map[series]bool, at time.Time) bool {
	var oldest series
	var found *place
	for s, held := range p.given {
		if used[s] || at.Sub(held.held) < keep {
			continue
		}
		if found == nil || held.before(found) {
			oldest, found = s, held
		}
	}
	if found == nil {
		return false
	}
	delete(p.given, oldest)
	p.yielded(oldest)
	return true
}

// before reports whether a place yields before another.
func (p *place) before(o *place) bool {
	if !p.held.Equal(o.held) {
		return p.held.Before(o.held)
	}
	return p.since < o.since
}
