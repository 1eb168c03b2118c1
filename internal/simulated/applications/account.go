package applications

import (
	"slices"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/simulated/devices"
)

// account has the counts of a process, or of all processes of a device without space of their own.
type account struct {
	trace.App // without the unread events, which queues have
	queues    []*queue
	changed   bool // since the last Update
}

// queue counts the unread events in a queue of a process.
type queue struct {
	unread, errors uint64
	since          int64 // last time at which it was empty or read
}

func (a *account) hasName() bool { return a.Process.PID != 0 }

// addQueue adds a queue with the events that it already has.
func (a *account) addQueue(before devices.AppQueue) *queue {
	q := &queue{}
	a.queues = append(a.queues, q)
	for typ, n := range before.Unread {
		a.Queued[typ] += n
		a.Found[typ] += n
		q.addUnread(typ, n, before.Since)
	}
	return q
}

// removeQueue removes a queue that was closed. The process then has no further changes.
func (a *account) removeQueue(q *queue) {
	a.queues = slices.DeleteFunc(a.queues, func(other *queue) bool { return other == q })
	a.changed, a.Ended = true, a.hasName()
}

// addStep counts a step. timed tells whether the events of an AppRead were queued after the start of the source.
func (a *account) addStep(q *queue, s *devices.AppStep, timed bool) {
	a.changed = true
	switch s.What {
	case devices.AppQueued:
		a.Queued[s.Type] += s.Count
		q.addUnread(s.Type, s.Count, s.At)
	case devices.AppSkipped:
		a.Queued[s.Type] += s.Count
		a.Skipped += s.Count
	case devices.AppRead:
		a.Read += s.Count
		q.removeUnread(s.Type, s.Count)
		q.since = s.At
		if delay := s.At - s.Queued; timed {
			a.Delays += s.Count
			a.DelaySum += int64(s.Count) * delay
			a.DelayMax = max(a.DelayMax, delay)
		}
	case devices.AppDiscarded:
		a.Discarded += s.Count
		q.removeUnread(s.Type, s.Count)
	case devices.AppDestroys:
		a.DestroyedUnacked++
	}
}

// current returns the current counts, and resets the marks of changes.
func (a *account) current() trace.App {
	app := a.App
	for _, q := range a.queues {
		app.Unread += q.unread
		app.UnreadErrors += q.errors
		if q.unread > 0 && (app.UnreadSince == 0 || q.since < app.UnreadSince) {
			app.UnreadSince = q.since
		}
	}
	a.changed, a.DelayMax = false, 0
	return app
}

func (q *queue) addUnread(typ verbs.EventType, n uint64, at int64) {
	if q.unread == 0 {
		q.since = at
	}
	q.unread += n
	if trace.IsError(typ) {
		q.errors += n
	}
}

func (q *queue) removeUnread(typ verbs.EventType, n uint64) {
	q.unread -= n
	if trace.IsError(typ) {
		q.errors -= n
	}
}
