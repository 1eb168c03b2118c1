package inventory

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"rdma_events/internal/applications/identity"
	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/aggregate"
	"rdma_events/internal/telemetry/measure"
)

// tracing is what the tracers of this host have counted. A tracer counts from its own start; what it counted more than
// before goes to the counters of the process' series, which outlive process and tracer.
type tracing struct {
	on        bool
	processes map[ProcessID]*traced
	open      map[ProcessID]*traced // those of which not all that was counted has been shown
	counts    map[series]*account
	totals    map[shownAs]uint64 // events that points have shown
	early     []trace.Event      // of the snapshot before, whose counts had not come
	errors    uint64             // queued, of all series, those that have yielded too
	running   map[series]bool    // places that had a process at the points before
	hanging   hanging
	health    health
}

// ProcessID is one process at one device. PID 0: what found no place in the tracer.
type ProcessID struct {
	device string
	identity.ID
}

// shownAs is what a point of rdma_app_event is of.
type shownAs struct {
	device, app string
	typ         verbs.EventType
}

// traced is a process of which a tracer has counted something.
type traced struct {
	who    identity.Process
	since  time.Time // when a tracer first reported it
	series series    // for as long as the process is there: what is queued in a series is read in it
	last   trace.App
	// carried says that last is what a tracer saw that has ended. Its events are taken as unread until the next tracer
	// reports the process, or that is gone.
	carried bool
	had     bool // it had an event
	ended   bool

	counted [trace.Types]uint64
	due     [trace.Types]uint64 // counted by the snapshot before: their events come with the next one, or never
	shown   [trace.Types]uint64 // as points
}

// account has the counters of a series.
type account struct {
	measure.AppCounts
	delay aggregate.Interval
}

// Moment relates times of CLOCK_MONOTONIC to the wall clock.
type Moment struct {
	Wall time.Time
	Mono int64 // CLOCK_MONOTONIC ns
}

// at returns the wall time of a CLOCK_MONOTONIC stamp. No stamp is ahead of the moment when it is handled.
func (m *Moment) at(mono int64) time.Time { return m.Wall.Add(-m.since(mono)) }

func (m *Moment) since(mono int64) time.Duration { return time.Duration(max(0, m.Mono-mono)) }

func newTracing(on bool) tracing {
	return tracing{
		on: on, processes: map[ProcessID]*traced{}, open: map[ProcessID]*traced{}, counts: map[series]*account{},
		totals: map[shownAs]uint64{}, hanging: newHanging(),
	}
}

// use adds the series that have a process.
func (t *tracing) use(used map[series]bool) {
	for _, p := range t.processes {
		used[p.series] = true
	}
	t.hanging.use(used)
}

// yield forgets the counters of a series whose place another one takes.
func (t *tracing) yield(s series) {
	delete(t.counts, s)
	for o := range t.counts {
		if o.device == s.device && o.app == s.app {
			return // events have no tag for the unit, so the total is that of all units
		}
	}
	maps.DeleteFunc(t.totals, func(k shownAs, _ uint64) bool { return k.device == s.device && k.app == s.app })
}

func (t *tracing) of(s series) *account {
	if t.counts[s] == nil {
		t.counts[s] = &account{}
	}
	return t.counts[s]
}

// Attach handles a tracer that begins to count.
func (p *Picture) Attach(a *trace.Attached, m Moment, emit func(measure.Point)) {
	if p.tracing.health.attached {
		p.Detach(m, emit)
	}
	p.tracing.health.attach(a, m.Mono)
}

// Trace handles what has changed in a second. It passes a point for each event to emit, in their order.
func (p *Picture) Trace(s *trace.Update, m Moment, emit func(measure.Point)) {
	t := &p.tracing
	t.health.heardOf(s, m.Mono)
	for i := range s.Apps {
		p.count(&s.Apps[i], m.Wall)
	}
	early := t.early
	t.early = nil
	for i := range early {
		p.event(&early[i], &m, emit)
	}
	for i := range s.Events {
		if !p.event(&s.Events[i], &m, emit) {
			t.early = append(t.early, s.Events[i])
		}
	}
	for _, id := range t.sorted() {
		who := t.open[id]
		t.showRest(who, m.at(s.Mono), emit)
		who.due = who.counted
		if !who.pending() {
			delete(t.open, id)
			p.forgetEnded(id, m.Wall)
		}
	}
	p.hangs(s, &m)
}

// sorted returns which processes are open, so that equal histories give equal points.
func (t *tracing) sorted() []ProcessID {
	return slices.SortedFunc(maps.Keys(t.open), func(a, b ProcessID) int {
		return cmp.Or(cmp.Compare(a.device, b.device), cmp.Compare(a.Start, b.Start), cmp.Compare(a.PID, b.PID))
	})
}

// Detach handles the end of a tracer. What it had counted stays. Nothing more will be known of the events that did not come
// with their details, and of the threads that hung.
func (p *Picture) Detach(m Moment, emit func(measure.Point)) {
	t := &p.tracing
	t.early = nil
	for _, id := range t.sorted() {
		t.showRest(t.open[id], m.Wall, emit)
		delete(t.open, id)
		p.forgetEnded(id, m.Wall)
	}
	for id, who := range t.processes {
		who.carried = true
		p.places.hold(who.series, m.Wall)
		if id.PID == 0 { // it can neither be found again nor be seen to be gone
			t.of(who.series).Read += who.last.Unread
			delete(t.processes, id)
		}
	}
	p.endHangs(nil, &m)
	t.health.detach()
}

// Carried returns the processes of which only a tracer knew that has ended.
func (p *Picture) Carried() []ProcessID {
	var ids []ProcessID
	for id, who := range p.tracing.processes {
		if who.carried {
			ids = append(ids, id)
		}
	}
	return ids
}

// Gone handles processes that are not there any more. No tracer was there to see what became of their events: they are gone
// with the descriptor. One that a tracer has reported in the meantime is left to it.
func (p *Picture) Gone(ids []ProcessID, at time.Time) {
	for _, id := range ids {
		if who := p.tracing.processes[id]; who != nil && who.carried {
			p.end(who)
			p.forgetEnded(id, at)
		}
	}
}

// end handles that nothing more will come of a process.
func (p *Picture) end(who *traced) {
	p.tracing.of(who.series).Discarded += who.last.Unread
	who.last, who.ended = trace.App{}, true
}

func (p *Picture) forgetEnded(id ProcessID, at time.Time) {
	if who := p.tracing.processes[id]; who != nil && who.ended {
		p.places.hold(who.series, at)
		delete(p.tracing.processes, id)
	}
}

// process returns a process, which is given a series when it is first reported.
func (p *Picture) process(device string, who *identity.Process, at time.Time) *traced {
	id := ProcessID{device, who.ID()}
	if found := p.tracing.processes[id]; found != nil {
		return found
	}
	s := series{device: device, app: other}
	if who.PID != 0 {
		s = p.places.seat(p.places.name(device, who), at)
	}
	p.tracing.of(s)
	found := &traced{who: *who, since: at, series: s}
	p.tracing.processes[id] = found
	return found
}

// count adds what a process has had more than before.
func (p *Picture) count(a *trace.App, at time.Time) {
	who := p.process(a.Device, &a.Process, at)
	grown := who.grow(a)
	t, c := &p.tracing, p.tracing.of(who.series)
	for typ, n := range grown.Queued {
		who.counted[typ] += n
		c.Types[typ] += n
		if trace.IsError(verbs.EventType(typ)) {
			t.errors += n
		}
	}
	if sum(&a.Queued) > 0 && !who.had && a.Process.PID != 0 {
		who.had = true
		c.Processes++
	}
	c.Read += grown.Read
	c.Discarded += grown.Discarded
	c.Skipped += grown.Skipped
	c.DestroyedUnacked += grown.DestroyedUnacked
	if grown.Delays > 0 {
		c.delay.AddRun(int64(grown.Delays), grown.DelaySum, a.DelayMax)
	}
	who.last, who.carried, who.ended = *a, false, false
	if a.Ended {
		p.end(who)
	}
	t.open[ProcessID{a.Device, a.Process.ID()}] = who
}

// grow returns what a has more than what was known of the process.
func (w *traced) grow(a *trace.App) trace.App {
	if w.carried {
		return w.meet(a)
	}
	was := &w.last
	grown := trace.App{
		Read: rise(was.Read, a.Read), Discarded: rise(was.Discarded, a.Discarded), Skipped: rise(was.Skipped, a.Skipped),
		DestroyedUnacked: rise(was.DestroyedUnacked, a.DestroyedUnacked), Delays: rise(was.Delays, a.Delays),
		DelaySum: max(0, a.DelaySum-was.DelaySum),
	}
	for typ, n := range a.Queued {
		grown.Queued[typ] = rise(was.Queued[typ], n)
	}
	return grown
}

// meet is grow for a process that the tracer before had reported. What the new one found in the queue had been counted if
// it was unread then, and what was unread then and is not found has been read in between.
func (w *traced) meet(a *trace.App) trace.App {
	errors := min(w.last.UnreadErrors, w.last.Unread)
	others := w.last.Unread - errors
	grown := *a
	for typ, n := range a.Found {
		of := &others
		if trace.IsError(verbs.EventType(typ)) {
			of = &errors
		}
		again := min(n, *of, w.counted[typ], grown.Queued[typ])
		*of -= again
		grown.Queued[typ] -= again
	}
	grown.Read += errors + others
	return grown
}

func rise(from, to uint64) uint64 { return to - min(from, to) }

func sum(of *[trace.Types]uint64) (n uint64) {
	for _, one := range of {
		n += one
	}
	return n
}

// pending reports whether not all that was counted has been shown.
func (w *traced) pending() bool {
	for typ, n := range w.counted {
		if n > w.shown[typ] {
			return true
		}
	}
	return false
}

// event shows one event, and returns false if all that was counted has been shown: either its count comes later, or the event
// comes late and was shown without details.
func (p *Picture) event(e *trace.Event, m *Moment, emit func(measure.Point)) bool {
	if !e.Type.Known() || e.Type.Scope() == verbs.ScopePort {
		return true
	}
	id := ProcessID{e.Device, e.Process.ID()}
	who := p.tracing.processes[id]
	if who == nil || who.carried {
		id.ID = identity.ID{}
		who = p.tracing.processes[id]
	}
	if who == nil || who.shown[e.Type] >= who.counted[e.Type] {
		return false
	}
	who.shown[e.Type]++
	p.tracing.open[id] = who
	at := m.at(e.At)
	p.tracing.show(who.series, &measure.AppEvent{
		Type: e.Type, Count: 1, First: at, PID: e.Process.PID, Number: e.Number, Unit: e.Process.Unit, At: at,
	}, emit)
	return true
}

// showRest shows what was counted and did not come as events, so that the points add up to the counters.
func (t *tracing) showRest(who *traced, at time.Time, emit func(measure.Point)) {
	for typ, due := range who.due {
		rest := rise(who.shown[typ], due)
		if rest == 0 {
			continue
		}
		who.shown[typ] += rest
		t.show(who.series, &measure.AppEvent{
			Type: verbs.EventType(typ), Count: rest, First: at, PID: who.who.PID, Unit: who.who.Unit, At: at,
		}, emit)
	}
}

func (t *tracing) show(s series, e *measure.AppEvent, emit func(measure.Point)) {
	k := shownAs{s.device, s.app, e.Type}
	t.totals[k] += e.Count
	e.Device, e.App, e.Total = s.device, s.app, t.totals[k]
	emit(e)
}
