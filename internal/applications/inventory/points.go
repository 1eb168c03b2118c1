package inventory

import (
	"cmp"
	"slices"
	"time"

	"rdma_events/internal/applications/identity"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
)

// sums has the numbers of objects of a series.
type sums struct {
	processes int64     // number of processes that hold an object
	since     time.Time // time at which the first process of the series was listed or reported; zero: it has none
	objects   [verbs.ObjectKinds]tally
}

// Points returns a point of rdma_app for each series that has a process, computed from lists that are newer than the process. A series
// whose processes have ended gets one more point. The series other, unknown and kernel have points from their first occurrence on. A series
// without any known value has no point. The points are sorted by device, application and unit.
func (p *Picture) Points(at time.Time) []*measure.App {
	var points []*measure.App
	for name, d := range p.devices {
		for s, held := range p.sumBySeries(name, d) {
			if a, ok := d.newPoint(s, held, at); ok {
				points = append(points, a)
				d.noteEmitted(s, held)
			}
		}
	}
	slices.SortFunc(points, func(a, b *measure.App) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.App, b.App), cmp.Compare(a.Unit, b.Unit))
	})
	return points
}

// sumBySeries adds up the objects of a device by series.
func (p *Picture) sumBySeries(name string, d *device) map[series]*sums {
	folded := map[series]*sums{}
	at := func(s series) *sums {
		if folded[s] == nil {
			folded[s] = &sums{}
		}
		return folded[s]
	}
	for s := range d.emitted {
		if p.places.assigned[s] == nil {
			delete(d.emitted, s)
			continue
		}
		at(s)
	}
	for id := range d.series {
		p.addProcess(d, id, at)
	}
	for id, who := range p.tracing.processes {
		if id.device == name && p.places.assigned[who.series] != nil {
			at(who.series).noteSince(who.since)
		}
	}
	for t := range d.lists {
		for app, held := range map[string]*tally{unknown: &d.lists[t].unknown, kernel: &d.lists[t].kernel} {
			if held.count > 0 {
				at(series{device: name, app: app}).objects[t].add(held)
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
	s := d.series[id]
	if p.places.assigned[s] == nil && !isSpecial(s.app) {
		s = series{device: s.device, app: other}
	}
	to := at(s)
	to.processes++
	to.noteSince(d.firstSeen[id])
	for t := range d.lists {
		if held := d.lists[t].processes[id]; held != nil {
			to.objects[t].add(held)
		}
	}
}

// noteEmitted records that a series has a point. A point without a process is the last one of its series.
func (d *device) noteEmitted(s series, held *sums) {
	if held.since.IsZero() {
		delete(d.emitted, s)
	} else {
		d.emitted[s] = true
	}
}

// noteSince records that a process of the series is known since at.
func (s *sums) noteSince(at time.Time) {
	if s.since.IsZero() || at.Before(s.since) {
		s.since = at
	}
}

// newPoint returns the point of a series, and reports whether any value in it is known.
func (d *device) newPoint(s series, held *sums, at time.Time) (*measure.App, bool) {
	a := &measure.App{Device: s.device, App: s.app, Unit: s.unit, At: at}
	known, listed := false, false
	for kind, to := range [verbs.ObjectKinds]*measure.Held{
		verbs.ObjectContext: &a.Contexts, verbs.ObjectPD: &a.PDs, verbs.ObjectCQ: &a.CQs, verbs.ObjectSRQ: &a.SRQs,
		verbs.ObjectQP: &a.QPs,
	} {
		state := d.stateFor(verbs.ObjectKind(kind), held, at)
		listed = listed || state == verbs.ListComplete
		if state == verbs.ListComplete || state == verbs.ListCounted && s.app == unknown {
			*to, known = measure.Held{Count: held.objects[kind].count, Known: true}, true
		}
	}
	if d.stateFor(verbs.ObjectQP, held, at) == verbs.ListComplete {
		for i, n := range held.objects[verbs.ObjectQP].states {
			a.States[i] = measure.Held{Count: n, Known: true}
		}
	}
	if listed && s.app != unknown && s.app != kernel {
		a.Processes = measure.Held{Count: held.processes, Known: true}
	}
	return a, known
}

// stateFor returns the state of a list for a series. A list older than all processes of the series counts as failed. That happens because
// queue pairs are listed less often than other objects, and because the tracer may report an event of a process before the process is
// listed.
func (d *device) stateFor(kind verbs.ObjectKind, held *sums, at time.Time) verbs.ListState {
	if held.since.After(d.lists[kind].at) {
		return verbs.ListFailed
	}
	return d.lists[kind].stateAt(kind, at)
}
