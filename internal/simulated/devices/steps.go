package devices

import (
	"sort"
	"syscall"

	"rdma_events/internal/device/verbs"
)

// AppContext identifies a period in which a simulated process has a device open. It is comparable.
type AppContext struct {
	Device  string // name of the device when it was opened
	Process Process
	Opened  int64 // CLOCK_MONOTONIC ns
}

// AppChange is a kind of change of an AppContext.
type AppChange uint8

// The changes.
const (
	AppQueued    AppChange = iota // events were queued
	AppSkipped                    // events could not be queued because the kernel had no memory
	AppRead                       // the process read events
	AppDiscarded                  // unread events were discarded
	AppDestroys                   // a thread starts to wait for missing acknowledgements while it destroys an object
	AppDestroyed                  // the thread no longer waits
	AppClosed                     // the device was closed; no changes follow
)

// AppStep is one change.
type AppStep struct {
	AppContext
	What AppChange
	At   int64 // CLOCK_MONOTONIC ns

	// For AppQueued, AppSkipped, AppRead and AppDiscarded. AppDiscarded has no Queued, since its events may have been queued at different times.
	Type   verbs.EventType
	Count  uint64
	Queued int64

	Number uint32 // number of the object; 0: the event is of the device

	// For AppDestroys and AppDestroyed.
	Object  verbs.Scope
	Missing uint32 // number of missing acknowledgements
	Asleep  bool   // the thread does not run while it waits
}

// AppQueue has the unread events in the queue of an AppContext.
type AppQueue struct {
	AppContext
	Unread map[verbs.EventType]uint64
	Since  int64 // last time at which the queue was empty or read
}

// AppSteps returns the steps in (from, until] of all processes with open devices, in order.
func (w *World) AppSteps(from, until int64) []AppStep {
	var steps []AppStep
	w.eachOpening(from, until, func(o *opening) { steps = append(steps, o.steps(from, until)...) })
	sort.SliceStable(steps, func(i, j int) bool { return steps[i].At < steps[j].At })
	return steps
}

// AppQueues returns the queues that are not empty at a time.
func (w *World) AppQueues(at int64) []AppQueue {
	var queues []AppQueue
	w.eachOpening(at, at, func(o *opening) {
		if q := o.unreadQueue(at); len(q.Unread) > 0 {
			queues = append(queues, q)
		}
	})
	return queues
}

// eachOpening calls f for every opening that overlaps (from, until], or that includes the time if both are equal.
func (w *World) eachOpening(from, until int64, f func(*opening)) {
	all := func(h *hardware, runs []processRun) {
		for i := range runs {
			openings := h.findOpenings(&runs[i], from, until)
			for j := range openings {
				f(&openings[j])
			}
		}
	}
	for _, h := range w.hardware {
		for i := range h.apps {
			all(h, h.apps[i].runsIn(from, until))
		}
		all(h, w.actors.runs(h, until))
	}
}

// unreadQueue returns the unread events at a time.
func (o *opening) unreadQueue(at int64) AppQueue {
	q := AppQueue{AppContext: o.AppContext, Unread: map[verbs.EventType]uint64{}}
	for i := range o.streams {
		s := &o.streams[i]
		if n, _ := s.unread(o.reads, at); n > 0 {
			q.Unread[s.typ] += n
		}
		if read, ok := s.lastRead(o.reads, at); ok {
			q.Since = max(q.Since, read)
		}
	}
	if len(q.Unread) == 0 {
		return q
	}
	// The queue may already have had other unread events when its first unread event was queued. They were discarded with their object since.
	filled := o.firstUnread(at)
	for first := o.firstUnread(filled); first < filled && filled > q.Since; first = o.firstUnread(filled) {
		filled = first
	}
	q.Since = max(q.Since, filled)
	return q
}

// firstUnread returns the time at which the first event that is unread at a time was queued, or never.
func (o *opening) firstUnread(at int64) int64 {
	first := int64(never)
	for i := range o.streams {
		if n, came := o.streams[i].unread(o.reads, at); n > 0 {
			first = min(first, came)
		}
	}
	return first
}

// TracerRefused returns the error with which a tracer cannot start at a time: verbs.ErrPermission, ErrUnsupported or ErrNoDevice. It
// returns nil if the tracer can start.
func (w *World) TracerRefused(at int64) error {
	if f := w.tracerFault(tracerRefused, at); f != nil {
		return f.err
	}
	return nil
}

// TracerLoses reports whether the tracer loses a record at a time.
func (w *World) TracerLoses(at int64) bool { return w.tracerFault(tracerLost, at) != nil }

// TracerFull reports whether the tracer has no space for another process at a time.
func (w *World) TracerFull(at int64) bool { return w.tracerFault(tracerFull, at) != nil }

func (w *World) tracerFault(kind faultKind, at int64) *fault {
	for i := range w.tracer[kind] {
		if f := &w.tracer[kind][i]; isActive(f, at) {
			return f
		}
	}
	return nil
}

func isActive(f *fault, at int64) bool {
	_, ok := f.active(at)
	return ok
}

// TracerCrash returns the time of the first crash of the tracer after later, and a function that ends the process. It returns false if
// there is no such crash.
func (w *World) TracerCrash(later int64) (at int64, die func(), ok bool) {
	at = never
	var signal syscall.Signal
	for i := range w.tracer[tracerCrash] {
		if f := &w.tracer[tracerCrash][i]; f.next(later) < at {
			at, signal = f.next(later), f.signal
		}
	}
	return at, func() { w.die(signal) }, at != never
}
