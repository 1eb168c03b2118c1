package inventory

import (
	"cmp"
	"slices"
	"time"

	"rdma_events/internal/applications/identity"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
)

// sums has the objects of a series.
type sums struct {
	processes int64     // that hold an object
	since     time.Time // when the first of the series' processes was found or reported; zero: it has none
	of        [verbs.ObjectKinds]tally
}

// Points returns a point of rdma_app for each series that has a process, by the lists that are newer than that. A series whose
// processes have ended gets one more point. Other, unknown and kernel have points once they have been seen. There is none of a
// series of which nothing is known. They are in the order of device, application and unit.
func (p *Picture) Points(at time.Time) []*measure.App {
	var points []*measure.App
	for name, d := range p.devices {
		for s, held := range p.fold(name, d) {
			if a, ok := d.point(s, held, at); ok {
				points = append(points, a)
				d.noteShown(s, held)
			}
		}
	}
	slices.SortFunc(points, func(a, b *measure.App) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.App, b.App), cmp.Compare(a.Unit, b.Unit))
	})
	return points
}

// fold adds up what is held by series.
func (p *Picture) fold(name string, d *device) map[series]*sums {
	folded := map[series]*sums{}
	at := func(s series) *sums {
		if folded[s] == nil {
			folded[s] = &sums{}
		}
		return folded[s]
	}
	for s := range d.shown {
		if p.places.given[s] == nil {
			delete(d.shown, s)
			continue
		}
		at(s)
	}
	for id := range d.named {
		p.addProcess(d, id, at)
	}
	for id, who := range p.tracing.processes {
		if id.device == name && p.places.given[who.series] != nil {
			at(who.series).begin(who.since)
		}
	}
	for t := range d.lists {
		for app, held := range map[string]*tally{unknown: &d.lists[t].unknown, kernel: &d.lists[t].kernel} {
			if held.count > 0 {
				at(series{device: name, app: app}).of[t].add(held)
			}
		}
	}
	for app := range d.special {
		at(series{device: name, app: app})
	}
	for s := range folded {
		if isSpecial(s.app) {
			d.special[s.app] = true
		}
	}
	return folded
}

func (p *Picture) addProcess(d *device, id identity.ID, at func(series) *sums) {
	s := d.named[id]
	if p.places.given[s] == nil && !isSpecial(s.app) {
		s = series{device: s.device, app: other}
	}
	to := at(s)
	to.processes++
	to.begin(d.since[id])
	for t := range d.lists {
		if held := d.lists[t].processes[id]; held != nil {
			to.of[t].add(held)
		}
	}
}

// noteShown notes that a series has a point. The one without a process is its last.
func (d *device) noteShown(s series, held *sums) {
	if held.since.IsZero() {
		delete(d.shown, s)
	} else {
		d.shown[s] = true
	}
}

// begin notes that a process of the series is known since at.
func (s *sums) begin(at time.Time) {
	if s.since.IsZero() || at.Before(s.since) {
		s.since = at
	}
}

// point returns the point of a series, and whether anything in it is known.
func (d *device) point(s series, held *sums, at time.Time) (*measure.App, bool) {
	a := &measure.App{Device: s.device, App: s.app, Unit: s.unit, At: at}
	known, listed := false, false
	for kind, to := range [verbs.ObjectKinds]*measure.Held{
		verbs.ObjectContext: &a.Contexts, verbs.ObjectPD: &a.PDs, verbs.ObjectCQ: &a.CQs, verbs.ObjectSRQ: &a.SRQs,
		verbs.ObjectQP: &a.QPs,
	} {
		state := d.state(verbs.ObjectKind(kind), held, at)
		listed = listed || state == verbs.ListWhole
		if state == verbs.ListWhole || state == verbs.ListCounted && s.app == unknown {
			*to, known = measure.Held{Count: held.of[kind].count, Known: true}, true
		}
	}
	if d.state(verbs.ObjectQP, held, at) == verbs.ListWhole {
		for i, n := range held.of[verbs.ObjectQP].states {
			a.States[i] = measure.Held{Count: n, Known: true}
		}
	}
	if listed && s.app != unknown && s.app != kernel {
		a.Processes = measure.Held{Count: held.processes, Known: true}
	}
	return a, known
}

// state returns what a list says of a series. A list says nothing of processes that have all come since: queue pairs are
// listed more rarely than the rest, and the tracer may report an event of a process before any list has it.
func (d *device) state(kind verbs.ObjectKind, held *sums, at time.Time) verbs.ListState {
	if held.since.After(d.lists[kind].at) {
		return verbs.ListFailed
	}
	return d.lists[kind].known(kind, at)
}
