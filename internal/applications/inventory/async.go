package inventory

import (
	"cmp"
	"slices"

	"rdma_events/internal/telemetry/measure"
)

// Events returns the points of rdma_app_async, rdma_app_hang and rdma_tracer if there is a tracer. They cover the time since the previous call.
//
// rdma_app_async has a point for each series with counted events and for each place with a process, and once more after the processes have
// ended. There are points before the first event so that the first event is visible as an increase.
func (p *Picture) Events(m *Moment, w *Worker) []measure.Point {
	t := &p.tracing
	if !t.on {
		return nil
	}
	var points []measure.Point
	for _, a := range p.asyncPoints(m) {
		points = append(points, a)
	}
	for _, h := range t.hanging.points(m) {
		points = append(points, h)
	}
	return append(points, t.health.newPoint(w, m))
}

func (p *Picture) asyncPoints(m *Moment) []*measure.AppAsync {
	t := &p.tracing
	of := map[series]*measure.AppAsync{}
	var points []*measure.AppAsync
	at := func(s series) *measure.AppAsync {
		if of[s] == nil {
			of[s] = &measure.AppAsync{Device: s.device, App: s.app, Unit: s.unit, Attached: t.health.attached, At: m.Wall}
			points = append(points, of[s])
		}
		return of[s]
	}
	used, before := p.usedSeries(), t.withProcess
	t.withProcess = map[series]bool{}
	for s := range p.places.assigned {
		if t.withProcess[s] = used[s]; used[s] || before[s] {
			at(s)
		}
	}
	for s, c := range t.counts {
		a := at(s)
		a.AppCounts, a.Delay = c.AppCounts, c.delay.End()
	}
	for _, who := range t.processes {
		a := at(who.series)
		a.Unread += who.last.Unread
		a.UnreadErrors += who.last.UnreadErrors
		if who.last.Unread > 0 {
			a.UnreadAge = max(a.UnreadAge, int64(m.since(who.last.UnreadSince)))
		}
	}
	slices.SortFunc(points, func(a, b *measure.AppAsync) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.App, b.App), cmp.Compare(a.Unit, b.Unit))
	})
	return points
}

// Host returns the sums over all applications, or nil if there is no tracer.
func (p *Picture) Host() *measure.HostApps {
	t := &p.tracing
	if !t.on {
		return nil
	}
	h := &measure.HostApps{Errors: t.errors, Hangs: int64(len(t.hanging.threads)), Attached: t.health.attached}
	for _, who := range t.processes {
		h.UnreadErrors += who.last.UnreadErrors
	}
	return h
}
