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

// tracing accumulates the counts of all tracers of this host. A tracer counts from its own start. The increase of its counts is added to
// the counters of the process' series, which outlive process and tracer.
type tracing struct {
	on            bool
	processes     map[ProcessID]*tracedProcess
	unfinished    map[ProcessID]*tracedProcess // processes with counted events that have not been emitted yet
	counts        map[series]*account
	emittedTotals map[eventSeries]uint64 // number of emitted events
	early         []trace.Event          // events of the previous Update whose counts had not arrived
	errors        uint64                 // queued errors of all series, including series that have lost their places
	withProcess   map[series]bool        // places that had a process at the previous points
	hanging       hanging
	health        health
}

// ProcessID identifies a process on a device. PID 0 stands for all processes without space in the tracer.
type ProcessID struct {
	device string
	identity.ID
}

// eventSeries identifies a series of rdma_app_event and an event type.
type eventSeries struct {
	device, app string
	typ         verbs.EventType
}

// tracedProcess is a process that a tracer has reported.
type tracedProcess struct {
	who    identity.Process
	since  time.Time // time of the first report
	series series    // does not change, so that events are read in the series in which they were queued
	last   trace.App
	// carried is true if last is from a tracer that has ended. Its unread events count as unread until the next tracer reports the process or the
	// process has ended.
	carried  bool
	hadEvent bool // the process had an event
	ended    bool

	counted [trace.Types]uint64
	due     [trace.Types]uint64 // counted by the previous Update; details that are not in the next Update never arrive
	emitted [trace.Types]uint64 // emitted as points
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

// wallTime converts a CLOCK_MONOTONIC time to wall time. Times after the Moment are treated as equal to it.
func (m *Moment) wallTime(mono int64) time.Time { return m.Wall.Add(-m.since(mono)) }

func (m *Moment) since(mono int64) time.Duration { return time.Duration(max(0, m.Mono-mono)) }

func newTracing(on bool) tracing {
	return tracing{
		on: on, processes: map[ProcessID]*tracedProcess{}, unfinished: map[ProcessID]*tracedProcess{}, counts: map[series]*account{},
		emittedTotals: map[eventSeries]uint64{}, hanging: newHanging(),
	}
}

// addUsed adds the series that have a process to used.
func (t *tracing) addUsed(used map[series]bool) {
	for _, p := range t.processes {
		used[p.series] = true
	}
	t.hanging.addUsed(used)
}

// forgetSeries removes the counters of a series that loses its place to another one.
func (t *tracing) forgetSeries(s series) {
	delete(t.counts, s)
	for o := range t.counts {
		if o.device == s.device && o.app == s.app {
			return // points of events have no tag for the unit, so that totals are sums over all units
		}
	}
	maps.DeleteFunc(t.emittedTotals, func(k eventSeries, _ uint64) bool { return k.device == s.device && k.app == s.app })
}

func (t *tracing) accountOf(s series) *account {
	if t.counts[s] == nil {
		t.counts[s] = &account{}
	}
	return t.counts[s]
}

// Attach handles the start of a tracer.
func (p *Picture) Attach(a *trace.Attached, m Moment, emit func(measure.Point)) {
	if p.tracing.health.attached {
		p.Detach(m, emit)
	}
	p.tracing.health.recordAttach(a, m.Mono)
}

// Trace handles the changes of a second. It calls emit with a point for each event, in the order of the events.
func (p *Picture) Trace(s *trace.Update, m Moment, emit func(measure.Point)) {
	t := &p.tracing
	t.health.recordUpdate(s, m.Mono)
	for i := range s.Apps {
		p.addCounts(&s.Apps[i], m.Wall)
	}
	early := t.early
	t.early = nil
	for i := range early {
		p.emitEvent(&early[i], &m, emit)
	}
	for i := range s.Events {
		if !p.emitEvent(&s.Events[i], &m, emit) {
			t.early = append(t.early, s.Events[i])
		}
	}
	for _, id := range t.sortedUnfinished() {
		who := t.unfinished[id]
		t.emitRemaining(who, m.wallTime(s.Mono), emit)
		who.due = who.counted
		if !who.hasUnemitted() {
			delete(t.unfinished, id)
			p.forgetEnded(id, m.Wall)
		}
	}
	p.updateHangs(s, &m)
}

// sortedUnfinished returns the unfinished processes in a fixed order, so that equal histories result in equal points.
func (t *tracing) sortedUnfinished() []ProcessID {
	return slices.SortedFunc(maps.Keys(t.unfinished), func(a, b ProcessID) int {
		return cmp.Or(cmp.Compare(a.device, b.device), cmp.Compare(a.Start, b.Start), cmp.Compare(a.PID, b.PID))
	})
}

// Detach handles the end of a tracer. Its counts remain. Missing details of events will not arrive any more, and all hangs end.
func (p *Picture) Detach(m Moment, emit func(measure.Point)) {
	t := &p.tracing
	t.early = nil
	for _, id := range t.sortedUnfinished() {
		t.emitRemaining(t.unfinished[id], m.Wall, emit)
		delete(t.unfinished, id)
		p.forgetEnded(id, m.Wall)
	}
	for id, who := range t.processes {
		who.carried = true
		p.places.touch(who.series, m.Wall)
		if id.PID == 0 { // processes without a name cannot be found again, and their end cannot be noticed
			t.accountOf(who.series).Read += who.last.Unread
			delete(t.processes, id)
		}
	}
	p.endHangs(nil, &m)
	t.health.recordDetach()
}

// CarriedProcesses returns the processes whose last report is from a tracer that has ended.
func (p *Picture) CarriedProcesses() []ProcessID {
	var ids []ProcessID
	for id, who := range p.tracing.processes {
		if who.carried {
			ids = append(ids, id)
		}
	}
	return ids
}

// RemoveProcesses removes processes that have ended while no tracer was running. Their unread events count as discarded with the
// descriptor. It ignores processes that a tracer has reported meanwhile.
func (p *Picture) RemoveProcesses(ids []ProcessID, at time.Time) {
	for _, id := range ids {
		if who := p.tracing.processes[id]; who != nil && who.carried {
			p.endProcess(who)
			p.forgetEnded(id, at)
		}
	}
}

// endProcess handles the end of a process: its unread events count as discarded.
func (p *Picture) endProcess(who *tracedProcess) {
	p.tracing.accountOf(who.series).Discarded += who.last.Unread
	who.last, who.ended = trace.App{}, true
}

func (p *Picture) forgetEnded(id ProcessID, at time.Time) {
	if who := p.tracing.processes[id]; who != nil && who.ended {
		p.places.touch(who.series, at)
		delete(p.tracing.processes, id)
	}
}

// findOrAddProcess returns a process. It assigns a series to a new process.
func (p *Picture) findOrAddProcess(device string, who *identity.Process, at time.Time) *tracedProcess {
	id := ProcessID{device, who.ID()}
	if found := p.tracing.processes[id]; found != nil {
		return found
	}
	s := series{device: device, app: other}
	if who.PID != 0 {
		s = p.places.assignOrOther(p.places.seriesOf(device, who), at)
	}
	p.tracing.accountOf(s)
	found := &tracedProcess{who: *who, since: at, series: s}
	p.tracing.processes[id] = found
	return found
}

// addCounts adds the increase of a process' counts.
func (p *Picture) addCounts(a *trace.App, at time.Time) {
	who := p.findOrAddProcess(a.Device, &a.Process, at)
	grown := who.growth(a)
	t, c := &p.tracing, p.tracing.accountOf(who.series)
	for typ, n := range grown.Queued {
		who.counted[typ] += n
		c.Types[typ] += n
		if trace.IsError(verbs.EventType(typ)) {
			t.errors += n
		}
	}
	if sumTypes(&a.Queued) > 0 && !who.hadEvent && a.Process.PID != 0 {
		who.hadEvent = true
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
		p.endProcess(who)
	}
	t.unfinished[ProcessID{a.Device, a.Process.ID()}] = who
}

// growth returns the increase of the counts since the previous report.
func (w *tracedProcess) growth(a *trace.App) trace.App {
	if w.carried {
		return w.growthAfterGap(a)
	}
	was := &w.last
	grown := trace.App{
		Read: counterIncrease(was.Read, a.Read), Discarded: counterIncrease(was.Discarded, a.Discarded), Skipped: counterIncrease(was.Skipped, a.Skipped),
		DestroyedUnacked: counterIncrease(was.DestroyedUnacked, a.DestroyedUnacked), Delays: counterIncrease(was.Delays, a.Delays),
		DelaySum: max(0, a.DelaySum-was.DelaySum),
	}
	for typ, n := range a.Queued {
		grown.Queued[typ] = counterIncrease(was.Queued[typ], n)
	}
	return grown
}

// growthAfterGap returns the increase of the counts of a process that a previous tracer had reported. Events that the new tracer found in
// the queue were counted before if they were unread then. Events that were unread then and were not found have been read in between.
func (w *tracedProcess) growthAfterGap(a *trace.App) trace.App {
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

func counterIncrease(from, to uint64) uint64 { return to - min(from, to) }

func sumTypes(of *[trace.Types]uint64) (n uint64) {
	for _, one := range of {
		n += one
	}
	return n
}

// hasUnemitted reports whether counted events have not been emitted yet.
func (w *tracedProcess) hasUnemitted() bool {
	for typ, n := range w.counted {
		if n > w.emitted[typ] {
			return true
		}
	}
	return false
}

// emitEvent emits one event. It returns false if all counted events have been emitted already: either the count of this event arrives
// later, or the event is late and was emitted without details.
func (p *Picture) emitEvent(e *trace.Event, m *Moment, emit func(measure.Point)) bool {
	if !e.Type.Known() || e.Type.Scope() == verbs.ScopePort {
		return true
	}
	id := ProcessID{e.Device, e.Process.ID()}
	who := p.tracing.processes[id]
	if who == nil || who.carried {
		id.ID = identity.ID{}
		who = p.tracing.processes[id]
	}
	if who == nil || who.emitted[e.Type] >= who.counted[e.Type] {
		return false
	}
	who.emitted[e.Type]++
	p.tracing.unfinished[id] = who
	at := m.wallTime(e.At)
	p.tracing.emit(who.series, &measure.AppEvent{
		Type: e.Type, Count: 1, First: at, PID: e.Process.PID, Number: e.Number, Unit: e.Process.Unit, At: at,
	}, emit)
	return true
}

// emitRemaining emits counted events without details if their details have not arrived in time, so that the sums of points and counters agree.
func (t *tracing) emitRemaining(who *tracedProcess, at time.Time, emit func(measure.Point)) {
	for typ, due := range who.due {
		rest := counterIncrease(who.emitted[typ], due)
		if rest == 0 {
			continue
		}
		who.emitted[typ] += rest
		t.emit(who.series, &measure.AppEvent{
			Type: verbs.EventType(typ), Count: rest, First: at, PID: who.who.PID, Unit: who.who.Unit, At: at,
		}, emit)
	}
}

func (t *tracing) emit(s series, e *measure.AppEvent, emit func(measure.Point)) {
	k := eventSeries{s.device, s.app, e.Type}
	t.emittedTotals[k] += e.Count
	e.Device, e.App, e.Total = s.device, s.app, t.emittedTotals[k]
	emit(e)
}
