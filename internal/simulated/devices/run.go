package devices

import (
	"math"
	"sort"

	"rdma_events/internal/device/verbs"
)

// run is one process of an application, from its start to its end. All times are CLOCK_MONOTONIC ns.
type run struct {
	process  Process
	from, to int64
	reads    reading
	streams  []stream // of what comes to its objects
	hang     hang
}

// stream is events of one type that come to a process.
type stream struct {
	schedule
	typ    verbs.EventType
	number uint32
	burst  uint64 // at a time
	from   int64  // none comes earlier
	until  int64  // and none at this moment or later
	gone   int64  // what is not read by now is thrown away

	skipped bool // none comes into the queue
}

// reading says when a process reads what comes to it. Events are read in the order in which they came.
type reading interface {
	at(queued int64) int64 // when an event is read that was queued at a moment, or never
	by(t int64) int64      // what was queued not later than the result has been read by t
}

// after is a process that reads each event so long after it came, or never.
type after int64

func (a after) at(queued int64) int64 {
	if a == never {
		return never
	}
	return queued + int64(a)
}

func (a after) by(t int64) int64 {
	if a == never {
		return math.MinInt64
	}
	return t - int64(a)
}

// opening is one time that a process has a device open.
type opening struct {
	AppContext
	gone     int64 // its objects are, and no more events come
	closed   int64
	streams  []stream
	destroys hang // at is never if the device was not there
	reads    reading
}

// openings returns those of a run that last in a part of (from, until]. A process has the device open as long as it is there,
// and opens it again when it comes back.
func (h *hardware) openings(r *run, from, until int64) []opening {
	var all []opening
	at := max(from, r.from)
	if at >= r.to {
		return nil
	}
	if !h.present(at) {
		if went := h.went(at); went > r.from {
			all = append(all, h.opening(r, went-1))
		}
		at = h.back(at)
	}
	for at <= until && at < r.to {
		o := h.opening(r, at)
		all = append(all, o)
		if o.gone >= r.to {
			break
		}
		at = h.back(o.gone)
	}
	return all
}

// opening returns the one at a moment, when the device is there.
func (h *hardware) opening(r *run, at int64) opening {
	opened := max(r.from, h.came(at))
	o := opening{
		AppContext: AppContext{Device: h.nameAt(opened), Process: r.process, Opened: opened},
		gone:       min(r.to, h.goes(at)), reads: r.reads, destroys: r.hang,
	}
	if o.destroys.at < opened || o.destroys.at >= o.gone {
		o.destroys.at = never
	}
	o.closed = o.gone
	if o.gone < r.to {
		o.closed = min(r.to, h.back(o.gone), max(h.leaves(r, o.gone), o.destroys.end()))
	}
	if h.attr.EventsSupported {
		o.streams = h.streams(r, &o)
	}
	return o
}

// leaves returns when a process closes a device that has been removed: it learns of that by device_fatal, or, if the driver
// cannot take the device away, the removal has waited for it.
func (h *hardware) leaves(r *run, gone int64) int64 {
	if !h.notifies() {
		return gone
	}
	return r.reads.at(gone)
}

func (h *hardware) notifies() bool { return h.disassociates && h.attr.EventsSupported }

// streams returns what comes to a process in an opening.
func (h *hardware) streams(r *run, o *opening) []stream {
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
	if o.gone < r.to && h.notifies() {
		add(stream{schedule: schedule{at: o.gone}, typ: verbs.EventDeviceFatal, burst: 1}, o.gone+1, o.closed)
	}
	return all
}

// end returns when the acknowledgements come, never if they do not. It is long ago if there is no hang.
func (d *hang) end() int64 {
	switch {
	case d.at == never:
		return math.MinInt64
	case d.length == never:
		return never
	}
	return d.at + d.length
}

// came returns when the device that is there at a moment came.
func (h *hardware) came(at int64) int64 {
	came := int64(math.MinInt64)
	for _, f := range h.faults[removed] {
		if start, ok := f.last(at); ok {
			came = max(came, f.end(start))
		}
	}
	return came
}

// goes returns when the device that is there at a moment is removed, or never.
func (h *hardware) goes(at int64) int64 {
	goes := int64(never)
	for _, f := range h.faults[removed] {
		goes = min(goes, f.next(at))
	}
	return goes
}

// went returns when the device that is not there at a moment was removed.
func (h *hardware) went(at int64) int64 {
	for {
		for _, f := range h.faults[removed] {
			if _, active := f.active(at); active {
				start, _ := f.last(at)
				at = min(at, start)
			}
		}
		if h.present(at - 1) {
			return at
		}
		at--
	}
}

// back returns when the device that is not there at a moment comes back, or never.
func (h *hardware) back(at int64) int64 {
	for at != never && !h.present(at) {
		for _, f := range h.faults[removed] {
			if end, active := f.active(at); active {
				at = max(at, end)
			}
		}
	}
	return at
}

// unread returns how many events are in the queue at a moment, and when the first of them came.
func (s *stream) unread(r reading, at int64) (n uint64, first int64) {
	if at < s.from || at >= s.gone {
		return 0, never
	}
	return s.left(r, at)
}

// left is unread without what is thrown away at that moment.
func (s *stream) left(r reading, at int64) (n uint64, first int64) {
	from, to := max(r.by(at), s.from-1), min(at, s.until-1)
	if s.skipped || from >= to {
		return 0, never
	}
	return uint64(s.count(to)-s.count(from)) * s.burst, s.next(from)
}

// lastRead returns when the process last read one of the events, not later than at.
func (s *stream) lastRead(r reading, at int64) (int64, bool) {
	queued, ok := s.last(min(r.by(min(at, s.gone)), s.until-1))
	if !ok || s.skipped || queued < s.from {
		return 0, false
	}
	return r.at(queued), true
}

// steps adds what happens to the events in (from, until].
func (s *stream) steps(o *opening, from, until int64, add func(AppStep)) {
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
	for e := s.next(max(o.reads.by(from), s.from-1)); e <= o.reads.by(until) && e < s.until && o.reads.at(e) <= s.gone; e = s.next(e) {
		step.What, step.At, step.Queued = AppRead, o.reads.at(e), e
		add(step)
	}
	if s.gone > from && s.gone <= until {
		if n, _ := s.left(o.reads, s.gone); n > 0 {
			step.What, step.At, step.Queued, step.Count = AppDiscarded, s.gone, 0, n
			add(step)
		}
	}
}

// steps adds what happens in (from, until], in order.
func (o *opening) steps(from, until int64) []AppStep {
	var steps []AppStep
	in := func(at int64) bool { return at > from && at <= until }
	add := func(s AppStep) { steps = append(steps, s) }
	for i := range o.streams {
		o.streams[i].steps(o, from, until, add)
	}
	if d := &o.destroys; d.at != never {
		step := AppStep{
			AppContext: o.AppContext, What: AppDestroys, At: d.at, Object: d.object, Number: d.number, Missing: d.missing, Asleep: d.asleep,
		}
		if in(step.At) {
			add(step)
		}
		if step.What, step.At = AppDestroyed, min(d.end(), o.closed); in(step.At) {
			add(step)
		}
	}
	if in(o.closed) {
		add(AppStep{AppContext: o.AppContext, What: AppClosed, At: o.closed})
	}
	sort.SliceStable(steps, func(i, j int) bool { return steps[i].At < steps[j].At })
	return steps
}
