package inventory

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
)

// hanging has the threads that hang.
type hanging struct {
	threads map[hangID]*hang
	ended   map[hangKey]*measure.AppHang // hangs that ended since the previous points
}

// hangID identifies one wait of one thread.
type hangID struct {
	ProcessID
	thread int
	object verbs.Scope
	number uint32
}

// hangKey identifies a series of rdma_app_hang.
type hangKey struct {
	device, app string
	object      verbs.Scope
}

type hang struct {
	trace.Hang
	series series // does not change while the hang lasts
}

func newHanging() hanging {
	return hanging{threads: map[hangID]*hang{}, ended: map[hangKey]*measure.AppHang{}}
}

func (h *hanging) addUsed(used map[series]bool) {
	for _, one := range h.threads {
		used[one.series] = true
	}
}

// updateHangs updates the hanging threads from an Update.
func (p *Picture) updateHangs(s *trace.Update, m *Moment) {
	lasting := map[*hang]bool{}
	for i := range s.Hangs {
		lasting[p.findOrAddHang(&s.Hangs[i], m.Wall)] = true
	}
	p.endHangs(lasting, m)
}

func (p *Picture) findOrAddHang(found *trace.Hang, at time.Time) *hang {
	h := &p.tracing.hanging
	id := hangID{ProcessID{found.Device, found.Process.ID()}, found.Thread, found.Object, found.Number}
	one := h.threads[id]
	if one == nil {
		one = &hang{series: p.seriesOf(found, at)}
		h.threads[id] = one
	}
	one.Hang = *found
	return one
}

// seriesOf returns the series of the thread's process, which may not have had any event.
func (p *Picture) seriesOf(found *trace.Hang, at time.Time) series {
	if who := p.tracing.processes[ProcessID{found.Device, found.Process.ID()}]; who != nil {
		return who.series
	}
	return p.places.assignOrOther(p.places.seriesOf(found.Device, &found.Process), at)
}

// endHangs ends all hangs that are not in lasting, and keeps their last points. A hang lasts while the newest Update of the attached tracer
// has it. All hangs end with the tracer: it is then unknown whether the threads still hang, and a later tracer observes only waits that
// begin after its own start.
func (p *Picture) endHangs(lasting map[*hang]bool, m *Moment) {
	h := &p.tracing.hanging
	ended := map[hangKey]*measure.AppHang{}
	for id, one := range h.threads {
		if !lasting[one] {
			delete(h.threads, id)
			p.places.touch(one.series, m.Wall)
			addThread(ended, one, m)
		}
	}
	maps.Copy(h.ended, ended)
}

func (h *hang) seriesKey() hangKey { return hangKey{h.series.device, h.series.app, h.Object} }

func (h *hang) newPoint(m *Moment) *measure.AppHang {
	return &measure.AppHang{
		Device: h.series.device, App: h.series.app, Object: h.Object, Threads: 1, Age: int64(m.since(h.Since)), Missing: h.Missing,
		PID: h.Process.PID, TID: h.Thread, Number: h.Number, Unit: h.Process.Unit, Proof: h.Proof, At: m.Wall,
	}
}

// addThread adds a hanging thread to the point of its series. The point describes the thread that has hung for longest.
func addThread(points map[hangKey]*measure.AppHang, one *hang, m *Moment) {
	k, longest := one.seriesKey(), one.newPoint(m)
	threads := 1
	if so := points[k]; so != nil {
		threads += so.Threads
		if cmp.Or(cmp.Compare(so.Age, longest.Age), cmp.Compare(longest.TID, so.TID)) > 0 {
			longest = so
		}
	}
	longest.Threads = threads
	points[k] = longest
}

// points returns a point for each series with hanging threads, and a last point for each series whose hangs have ended.
func (h *hanging) points(m *Moment) []*measure.AppHang {
	all := map[hangKey]*measure.AppHang{}
	for _, one := range h.threads {
		addThread(all, one, m)
	}
	for k, last := range h.ended {
		if all[k] == nil {
			last.Threads, last.At = 0, m.Wall
			all[k] = last
		}
	}
	clear(h.ended)
	return slices.SortedFunc(maps.Values(all), func(a, b *measure.AppHang) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.App, b.App), cmp.Compare(a.Object, b.Object))
	})
}
