package devices

import (
	"math"
	"sort"

	"rdma_events/internal/device/verbs"
)

// processRun is one process of an application, from its start to its end. All times are CLOCK_MONOTONIC ns.
type processRun struct {
	process  Process
	from, to int64
	reads    reading
	streams  []stream // events of its objects
	hang     hang
}

// stream has the events of one type for a process.
type stream struct {
	schedule
	typ    verbs.EventType
	number uint32
	burst  uint64 // number of events for each time of the schedule
	from   int64  // no event is queued earlier
	until  int64  // no event is queued at this time or later
	gone   int64  // time at which unread events are discarded

	skipped bool // the kernel has no memory to queue the events
}

// reading defines when a process reads its events. Events are read in the order in which they were queued.
type reading interface {
	readAt(queued int64) int64 // returns the time at which an event queued at a time is read, or never
	readUpTo(t int64) int64    // returns the time up to which queued events have been read at t
}

// after is the reading of a process that reads each event after a fixed delay, or never.
type after int64

func (a after) readAt(queued int64) int64 {
	if a == never {
		return never
	}
	return queued + int64(a)
}

func (a after) readUpTo(t int64) int64 {
	if a == never {
		return math.MinInt64
	}
	return t - int64(a)
}

// opening is a period in which a process has a device open.
type opening struct {
	AppContext
	gone     int64 // time at which its objects disappear; no events are queued afterwards
	closed   int64 // time at which the process closes the device
	streams  []stream
	destroys hang // at is never if the device was not present
	reads    reading
}

// findOpenings returns the openings of a process that overlap (from, until]. A process has the device open while it is present, and opens it
// again when it returns.
func (h *hardware) findOpenings(r *processRun, from, until int64) []opening {
	var all []opening
	at := max(from, r.from)
	if at >= r.to {
		return nil
	}
	if !h.isPresent(at) {
		if went := h.lastRemovedAt(at); went > r.from {
			all = append(all, h.openingAt(r, went-1))
		}
		at = h.returnsAt(at)
	}
	for at <= until && at < r.to {
		o := h.openingAt(r, at)
		all = append(all, o)
		if o.gone >= r.to {
			break
		}
		at = h.returnsAt(o.gone)
	}
	return all
}

// openingAt returns the opening at a time at which the device is present.
func (h *hardware) openingAt(r *processRun, at int64) opening {
	opened := max(r.from, h.appearedAt(at))
	o := opening{
		AppContext: AppContext{Device: h.nameAt(opened), Process: r.process, Opened: opened},
		gone:       min(r.to, h.removedAt(at)), reads: r.reads, destroys: r.hang,
	}
	if o.destroys.at < opened || o.destroys.at >= o.gone {
		o.destroys.at = never
	}
	o.closed = o.gone
	if o.gone < r.to {
		o.closed = min(r.to, h.returnsAt(o.gone), max(h.closesAt(r, o.gone), o.destroys.endsAt()))
	}
	if h.attr.EventsSupported {
		o.streams = h.streamsOf(r, &o)
	}
	return o
}

// closesAt returns the time at which a process closes a device that was removed at gone. The process closes it after it has read
// device_fatal. If the driver cannot disassociate the device, the removal waits for the process, so the times are equal.
func (h *hardware) closesAt(r *processRun, gone int64) int64 {
	if !h.reportsRemoval() {
		return gone
	}
	return r.reads.readAt(gone)
}

func (h *hardware) reportsRemoval() bool { return h.disassociates && h.attr.EventsSupported }

// streamsOf returns the events of a process in an opening.
func (h *hardware) streamsOf(r *processRun, o *opening) []stream {
	var all []stream
	add := func(s stream, until, gone int64) {
		s.from, s.until, s.gone = o.Opened, until, gone
		all = append(all, s)
	}
	for _, s := range r.streams {
		gone := min(s.gone, o.gone)
		if s.typ.Scope() == verbs.ScopeDevice {
			gone = o.closed
		}
		add(s, min(s.gone, o.gone), gone)
	}
	for _, e := range h.notices {
		add(stream{schedule: e.schedule, typ: e.typ, burst: e.count}, o.gone, o.closed)
	}
	if o.gone < r.to && h.reportsRemoval() {
		add(stream{schedule: schedule{at: o.gone}, typ: verbs.EventDeviceFatal, burst: 1}, o.gone+1, o.closed)
	}
	return all
}

// endsAt returns the time at which the acknowledgements arrive, or never. If there is no hang, it returns the lowest possible time.
func (d *hang) endsAt() int64 {
	switch {
	case d.at == never:
		return math.MinInt64
	case d.length == never:
		return never
	}
	return d.at + d.length
}

// appearedAt returns the time at which a device that is present at a time appeared.
func (h *hardware) appearedAt(at int64) int64 {
	came := int64(math.MinInt64)
	for _, f := range h.faults[removed] {
		if start, ok := f.last(at); ok {
			came = max(came, f.end(start))
		}
	}
	return came
}

// removedAt returns the time at which a device that is present at a time is removed, or never.
func (h *hardware) removedAt(at int64) int64 {
	goes := int64(never)
	for _, f := range h.faults[removed] {
		goes = min(goes, f.next(at))
	}
	return goes
}

// lastRemovedAt returns the time at which a device that is absent at a time was removed.
func (h *hardware) lastRemovedAt(at int64) int64 {
	for {
		for _, f := range h.faults[removed] {
			if _, active := f.active(at); active {
				start, _ := f.last(at)
				at = min(at, start)
			}
		}
		if h.isPresent(at - 1) {
			return at
		}
		at--
	}
}

// returnsAt returns the time at which a device that is absent at a time appears again, or never.
func (h *hardware) returnsAt(at int64) int64 {
	for at != never && !h.isPresent(at) {
		for _, f := range h.faults[removed] {
			if end, active := f.active(at); active {
				at = max(at, end)
			}
		}
	}
	return at
}

// unread returns the number of events in the queue at a time, and the time at which the first of them was queued.
func (s *stream) unread(r reading, at int64) (n uint64, first int64) {
	if at < s.from || at >= s.gone {
		return 0, never
	}
	return s.unreadAt(r, at)
}

// unreadAt is like unread, but ignores that events may have been discarded.
func (s *stream) unreadAt(r reading, at int64) (n uint64, first int64) {
	from, to := max(r.readUpTo(at), s.from-1), min(at, s.until-1)
	if s.skipped || from >= to {
		return 0, never
	}
	return uint64(s.count(to)-s.count(from)) * s.burst, s.next(from)
}

// lastRead returns the last time, not later than at, at which the process read one of the events.
func (s *stream) lastRead(r reading, at int64) (int64, bool) {
	queued, ok := s.last(min(r.readUpTo(min(at, s.gone)), s.until-1))
	if !ok || s.skipped || queued < s.from {
		return 0, false
	}
	return r.readAt(queued), true
}

// addSteps adds the steps of the events in (from, until].
func (s *stream) addSteps(o *opening, from, until int64, add func(AppStep)) {
	step := AppStep{AppContext: o.AppContext, Type: s.typ, Number: s.number, Count: s.burst}
	for e := s.next(max(from, s.from-1)); e <= until && e < s.until; e = s.next(e) {
		step.What, step.At, step.Queued = AppQueued, e, e
		if s.skipped {
			step.What = AppSkipped
		}
		add(step)
	}
	if s.skipped {
		return
	}
	for e := s.next(max(o.reads.readUpTo(from), s.from-1)); e <= o.reads.readUpTo(until) && e < s.until && o.reads.readAt(e) <= s.gone; e = s.next(e) {
		step.What, step.At, step.Queued = AppRead, o.reads.readAt(e), e
		add(step)
	}
	if s.gone > from && s.gone <= until {
		if n, _ := s.unreadAt(o.reads, s.gone); n > 0 {
			step.What, step.At, step.Queued, step.Count = AppDiscarded, s.gone, 0, n
			add(step)
		}
	}
}

// steps returns the steps in (from, until], in order.
func (o *opening) steps(from, until int64) []AppStep {
	var steps []AppStep
	in := func(at int64) bool { return at > from && at <= until }
	add := func(s AppStep) { steps = append(steps, s) }
	for i := range o.streams {
		o.streams[i].addSteps(o, from, until, add)
	}
	if d := &o.destroys; d.at != never {
		step := AppStep{
			AppContext: o.AppContext, What: AppDestroys, At: d.at, Object: d.object, Number: d.number, Missing: d.missing, Asleep: d.asleep,
		}
		if in(step.At) {
			add(step)
		}
		if step.What, step.At = AppDestroyed, min(d.endsAt(), o.closed); in(step.At) {
			add(step)
		}
	}
	if in(o.closed) {
		add(AppStep{AppContext: o.AppContext, What: AppClosed, At: o.closed})
	}
	sort.SliceStable(steps, func(i, j int) bool { return steps[i].At < steps[j].At })
	return steps
}
