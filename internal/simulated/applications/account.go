package applications

import (
	"slices"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/simulated/devices"
)

// account has the counts of a process, or of all processes of a device for which there was no place.
type account struct {
	trace.App // but for what its queues have
	queues    []*queue
	changed   bool // since the last Snapshot
}

// queue is what is unread in the queue of a process.
type queue struct {
	unread, errors uint64
	since          int64 // the last moment when it was empty or read
}

func (a *account) named() bool { return a.Process.PID != 0 }

// join adds a queue, with what is in it already.
func (a *account) join(before devices.AppQueue) *queue {
	q := &queue{}
	a.queues = append(a.queues, q)
	for typ, n := range before.Unread {
		a.Queued[typ] += n
		a.Found[typ] += n
		q.put(typ, n, before.Since)
	}
	return q
}

// leave removes a queue that was closed. Nothing more comes of a process then.
func (a *account) leave(q *queue) {
	a.queues = slices.DeleteFunc(a.queues, func(other *queue) bool { return other == q })
	a.changed, a.Ended = true, a.named()
}

// add counts a step. timed says whether the events of an AppRead were queued after the source began.
func (a *account) add(q *queue, s *devices.AppStep, timed bool) {
	a.changed = true
	switch s.What {
	case devices.AppQueued:
		a.Queued[s.Type] += s.Count
		q.put(s.Type, s.Count, s.At)
	case devices.AppSkipped:
		a.Queued[s.Type] += s.Count
		a.Skipped += s.Count
	case devices.AppRead:
		a.Read += s.Count
		q.take(s.Type, s.Count)
		q.since = s.At
		if delay := s.At - s.Queued; timed {
			a.Delays += s.Count
			a.DelaySum += int64(s.Count) * delay
			a.DelayMax = max(a.DelayMax, delay)
		}
	case devices.AppDiscarded:
		a.Discarded += s.Count
		q.take(s.Type, s.Count)
	case devices.AppDestroys:
		a.DestroyedUnacked++
	}
}

// report returns the counts as they are now.
func (a *account) report() trace.App {
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

func (q *queue) put(typ verbs.EventType, n uint64, at int64) {
	if q.unread == 0 {
		q.since = at
	}
	q.unread += n
	if trace.IsError(typ) {
		q.errors += n
	}
}

func (q *queue) take(typ verbs.EventType, n uint64) {
	q.unread -= n
	if trace.IsError(typ) {
		q.errors -= n
	}
}
