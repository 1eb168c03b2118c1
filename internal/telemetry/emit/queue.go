package emit

import (
	"slices"
	"time"

	"rdma_events/internal/telemetry/measure"
)

// queue decides when to emit each point. It emits points within the limits at once, one by
// one. Points above the limits merge into one point of their series, which the queue holds
// until the limits admit it. The capacity and the number of series bound the memory of the
// queue. It is not safe for concurrent use and reads no clock: callers pass the time now,
// in ns.
type queue struct {
	perSecond int // limit for the points of one series
	capacity  int // number of ready entries from which on every further point merges
	total     window
	series    map[measure.Key]*series
	cleanupAt int      // size of series above which stale entries are deleted
	ready     []*entry // admitted entries, in the order in which they are emitted
	held      []*entry // entries that the limits do not admit yet, in the order of arrival
	due       int64    // the limits admit no held entry before this time
	merged    uint64
}

type series struct {
	limit  window
	tail   *entry    // the newest entry, until it is emitted
	newest time.Time // time of the newest point
}

// entry is one point of a series, or all points of an interval.
type entry struct {
	points []measure.Point
	series *series // nil for an interval
	held   bool
}

// minCapacity suffices for a burst on many devices even when the limits are low.
const minCapacity = 1000

// allSeries is the usual ratio of the limit for all series together to the limit for one.
const allSeries = 10

func newQueue(perSecond, total int) *queue {
	return &queue{
		perSecond: perSecond,
		capacity:  max(minCapacity, total),
		total:     window{limit: total},
		series:    make(map[measure.Key]*series),
	}
}

// push queues the next point of a series.
func (q *queue) push(p measure.Point, now int64) {
	key := p.Key()
	s := q.series[key]
	if s == nil {
		s = &series{limit: window{limit: q.perSecond}}
		q.series[key] = s
	}
	s.newest = p.Time()
	q.cleanupAt = deleteStale(q.series, q.cleanupAt, func(o *series) bool {
		return o.tail == nil && s.newest.Sub(o.newest) > staleAfter
	})
	// Held points are admitted first.
	q.releaseHeld(now)
	admitted := q.waitTime(s, now) == 0 && len(q.ready) < q.capacity
	switch {
	case s.tail != nil && (s.tail.held || !admitted):
		s.tail.points[0].Merge(p)
		q.merged++
	case admitted:
		q.admit(s, now)
		s.tail = &entry{points: []measure.Point{p}, series: s}
		q.ready = append(q.ready, s.tail)
	default:
		s.tail = &entry{points: []measure.Point{p}, series: s, held: true}
		q.held = append(q.held, s.tail)
		q.due = min(q.due, now+int64(q.waitTime(s, now)))
	}
}

// pushInterval queues the points of one interval. Each of them replaces an older held point
// of its series. If the series already has a newer point, pushInterval discards the point
// of the interval instead. Both count as merged.
func (q *queue) pushInterval(points []measure.Point) {
	points = slices.DeleteFunc(points, func(p measure.Point) bool {
		s := q.series[p.Key()]
		if s == nil {
			return false
		}
		if s.hasNewerThan(p.Time()) {
			q.merged++
			return true
		}
		q.closeTail(s)
		return false
	})
	q.ready = append(q.ready, &entry{points: points})
}

// hasNewerThan reports whether the series has a point that is newer than at. A point that
// is newer by more than clockSetBack does not count: it was made before the wall clock was
// set back.
func (s *series) hasNewerThan(at time.Time) bool {
	return s.newest.After(at) && s.newest.Sub(at) <= clockSetBack
}

// closeTail discards the tail of a series if it is held. A tail that is ready is emitted
// before the interval, so closeTail keeps later points from merging into it.
func (q *queue) closeTail(s *series) {
	if s.tail != nil && s.tail.held {
		q.held = slices.DeleteFunc(q.held, func(e *entry) bool { return e == s.tail })
		q.merged++
	}
	s.tail = nil
}

// next removes and returns the entry to emit now. If there is none, it returns nil and the
// time to wait for one, or a negative duration if the queue is empty.
func (q *queue) next(now int64) (*entry, time.Duration) {
	q.releaseHeld(now)
	if len(q.ready) == 0 {
		if len(q.held) == 0 {
			return nil, -1
		}
		return nil, time.Duration(max(0, q.due-now))
	}
	e := q.ready[0]
	q.ready[0] = nil
	q.ready = q.ready[1:]
	if e.series != nil && e.series.tail == e {
		e.series.tail = nil
	}
	return e, 0
}

// flush makes all entries ready, regardless of the limits.
func (q *queue) flush() {
	for _, e := range q.held {
		e.held = false
	}
	q.ready = append(q.ready, q.held...)
	q.held = nil
}

// takeAll removes and returns all entries.
func (q *queue) takeAll() []*entry {
	q.flush()
	all := q.ready
	q.ready = nil
	return all
}

// length returns the number of waiting points.
func (q *queue) length() int {
	n := len(q.held)
	for _, e := range q.ready {
		n += len(e.points)
	}
	return n
}

// releaseHeld moves the held entries that the limits admit now to ready.
func (q *queue) releaseHeld(now int64) {
	if len(q.held) == 0 || now < q.due {
		return
	}
	soonest := time.Duration(1<<63 - 1)
	q.held = slices.DeleteFunc(q.held, func(e *entry) bool {
		if wait := q.waitTime(e.series, now); wait > 0 {
			soonest = min(soonest, wait)
			return false
		}
		q.admit(e.series, now)
		e.held = false
		q.ready = append(q.ready, e)
		return true
	})
	q.due = now
	if len(q.held) > 0 {
		q.due += int64(soonest)
	}
}

// waitTime returns the time until the limits admit a point of the series; 0 means now.
func (q *queue) waitTime(s *series, now int64) time.Duration {
	return max(s.limit.waitTime(now), q.total.waitTime(now))
}

// admit counts one point of the series against the limits.
func (q *queue) admit(s *series, now int64) {
	s.limit.admit(now)
	q.total.admit(now)
}
