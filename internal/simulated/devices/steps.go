package devices

import (
	"sort"
	"syscall"

	"rdma_events/internal/device/verbs"
)

// AppContext is one time that a simulated process has a device open. It is comparable.
type AppContext struct {
	Device  string // its name at that time
	Process Process
	Opened  int64 // CLOCK_MONOTONIC ns
}

// AppChange is what happens to an AppContext.
type AppChange uint8

// The changes.
const (
	AppQueued    AppChange = iota // events came to its queue
	AppSkipped                    // they came, and the kernel had no memory for them
	AppRead                       // the process read them
	AppDiscarded                  // they are gone, unread
	AppDestroys                   // a thread begins to wait, in a destroy, for acknowledgements that are missing
	AppDestroyed                  // it does not wait any more
	AppClosed                     // nothing comes after this
)

// AppStep is one change.
type AppStep struct {
	AppContext
	What AppChange
	At   int64 // CLOCK_MONOTONIC ns

	// Of AppQueued, AppSkipped, AppRead and AppDiscarded. The last has no Queued, since not all events came at one moment.
	Type   verbs.EventType
	Count  uint64
	Queued int64

	Number uint32 // of the object; 0: of the device

	// Of AppDestroys and AppDestroyed.
	Object  verbs.Scope
	Missing uint32 // acknowledgements
	Asleep  bool   // the thread does not run while it waits
}

// AppQueue is what is unread in the queue of an AppContext.
type AppQueue struct {
	AppContext
	Unread map[verbs.EventType]uint64
	Since  int64 // the last moment when the queue was empty or read
}

// AppSteps returns what happens in (from, until] to the processes that have devices open, in order.
func (w *World) AppSteps(from, until int64) []AppStep {
	var steps []AppStep
	w.eachOpening(from, until, func(o *opening) { steps = append(steps, o.steps(from, until)...) })
	sort.SliceStable(steps, func(i, j int) bool { return steps[i].At < steps[j].At })
	return steps
}

// AppQueues returns the queues that are not empty at a moment.
func (w *World) AppQueues(at int64) []AppQueue {
	var queues []AppQueue
	w.eachOpening(at, at, func(o *opening) {
		if q := o.queue(at); len(q.Unread) > 0 {
			queues = append(queues, q)
		}
	})
	return queues
}

// eachOpening calls f for all that last in a part of (from, until], or at that moment if both are the same.
func (w *World) eachOpening(from, until int64, f func(*opening)) {
	all := func(h *hardware, runs []run) {
		for i := range runs {
			openings := h.openings(&runs[i], from, until)
			for j := range openings {
				f(&openings[j])
			}
		}
	}
	for _, h := range w.hardware {
		for i := range h.apps {
			all(h, h.apps[i].runs(from, until))
		}
		all(h, w.stage.runs(h, until))
	}
}

// queue returns what is unread at a moment.
func (o *opening) queue(at int64) AppQueue {
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
	// The first event that is unread may have come when others were, which are gone with their object since.
	filled := o.first(at)
	for first := o.first(filled); first < filled && filled > q.Since; first = o.first(filled) {
		filled = first
	}
	q.Since = max(q.Since, filled)
	return q
}

// first returns when the first event came that is unread at a moment, or never.
func (o *opening) first(at int64) int64 {
	first := int64(never)
	for i := range o.streams {
		if n, came := o.streams[i].unread(o.reads, at); n > 0 {
			first = min(first, came)
		}
	}
	return first
}

// TracerRefused returns why a tracer cannot begin at a moment: verbs.ErrPermission, ErrUnsupported or ErrNoDevice; nil if it
// can.
func (w *World) TracerRefused(at int64) error {
	if f := w.tracerFault(tracerRefused, at); f != nil {
		return f.err
	}
	return nil
}

// TracerLoses reports whether a record that a tracer makes at a moment is lost.
func (w *World) TracerLoses(at int64) bool { return w.tracerFault(tracerLost, at) != nil }

// TracerFull reports whether a tracer has no place for one more process at a moment.
func (w *World) TracerFull(at int64) bool { return w.tracerFault(tracerFull, at) != nil }

func (w *World) tracerFault(kind faultKind, at int64) *fault {
	for i := range w.tracer[kind] {
		if f := &w.tracer[kind][i]; active(f, at) {
			return f
		}
	}
	return nil
}

func active(f *fault, at int64) bool {
	_, ok := f.active(at)
	return ok
}

// TracerCrash returns when a tracer dies next, later than a moment, and what ends its process then. It is false if it does
// not.
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
