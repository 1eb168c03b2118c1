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
	ended   map[hangKey]*measure.AppHang // since the points before
}

// hangID is one wait of one thread.
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
	series series // for as long as it lasts
}

func newHanging() hanging {
	return hanging{threads: map[hangID]*hang{}, ended: map[hangKey]*measure.AppHang{}}
}

func (h *hanging) use(used map[series]bool) {
	for _, one := range h.threads {
		used[one.series] = true
	}
}

// hangs handles the threads that hang by a snapshot.
func (p *Picture) hangs(s *trace.Update, m *Moment) {
	lasting := map[*hang]bool{}
	for i := range s.Hangs {
		lasting[p.hang(&s.Hangs[i], m.Wall)] = true
	}
	p.endHangs(lasting, m)
}

func (p *Picture) hang(found *trace.Hang, at time.Time) *hang {
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

// seriesOf returns the series of the thread's process, which needs not have had an event.
func (p *Picture) seriesOf(found *trace.Hang, at time.Time) series {
	if who := p.tracing.processes[ProcessID{found.Device, found.Process.ID()}]; who != nil {
		return who.series
	}
	return p.places.seat(p.places.name(found.Device, &found.Process), at)
}

// endHangs ends all hangs but those that last, and keeps what is to be shown of them. A hang lasts while the newest snapshot of the
// attached tracer names it. With the tracer all hangs end: nobody knows whether their threads still hang, and a later tracer sees
// only the waits that begin after its own start.
func (p *Picture) endHangs(lasting map[*hang]bool, m *Moment) {
	h := &p.tracing.hanging
	ended := map[hangKey]*measure.AppHang{}
	for id, one := range h.threads {
		if !lasting[one] {
			delete(h.threads, id)
			p.places.hold(one.series, m.Wall)
			add(ended, one, m)
		}
	}
	maps.Copy(h.ended, ended)
}

func (h *hang) key() hangKey { return hangKey{h.series.device, h.series.app, h.Object} }

func (h *hang) point(m *Moment) *measure.AppHang {
	return &measure.AppHang{
		Device: h.series.device, App: h.series.app, Object: h.Object, Threads: 1, Age: int64(m.since(h.Since)), Missing: h.Missing,
		PID: h.Process.PID, TID: h.Thread, Number: h.Number, Unit: h.Process.Unit, Proof: h.Proof, At: m.Wall,
	}
}

// add adds a thread to those that hang alike.
func add(points map[hangKey]*measure.AppHang, one *hang, m *Moment) {
	k, longest := one.key(), one.point(m)
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

// points returns a point for what hangs, and a last one for what does not any more.
func (h *hanging) points(m *Moment) []*measure.AppHang {
	all := map[hangKey]*measure.AppHang{}
	for _, one := range h.threads {
		add(all, one, m)
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
