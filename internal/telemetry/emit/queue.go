package emit

import (
	"slices"
	"time"

	"rdma_events/internal/telemetry/measure"
)

// queue decides when each point is emitted. Points below the limits are emitted at once,
// one by one. Points above the limits merge into one point of their series, which is
// held until the limits admit it. The capacity and the number of series bound the memory
// of the queue. It is not safe for concurrent use, and reads no clock: now is in ns.
type queue struct {
	perSecond int // points of one series
	capacity  int // entries in ready above which everything merges
	all       window
	series    map[measure.Key]*series
	full      int      // size of series at which old entries are deleted
	ready     []*entry // in the order in which they are emitted
	held      []*entry // in the order in which they wait
	due       int64    // no held entry is admitted before this time
	merged    uint64
}

type series struct {
	limit  window
	tail   *entry    // the last entry, while it waits
	newest time.Time // of the last point pushed
}

// entry is one point of a series, or all points of an interval.
type entry struct {
	points []measure.Point
	series *series // nil for an interval
	held   bool
}

// minCapacity is enough for a burst on many devices even when the limits are low.
const minCapacity = 1000

// allSeries times the limit of one series is the usual limit for all series together.
const allSeries = 10

func newQueue(perSecond, all int) *queue {
	return &queue{
		perSecond: perSecond,
		capacity:  max(minCapacity, all),
		all:       window{limit: all},
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
	q.full = forget(q.series, q.full, func(o *series) bool {
		return o.tail == nil && s.newest.Sub(o.newest) > forgettable
	})
	// Points that already wait are admitted first.
	q.release(now)
	admitted := q.wait(s, now) == 0 && len(q.ready) < q.capacity
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
		q.due = min(q.due, now+int64(q.wait(s, now)))
	}
}

// pushInterval queues the points of one Gather. Each of them replaces an older held
// point of its key, and is dropped if a newer point of its key was pushed.
func (q *queue) pushInterval(points []measure.Point) {
	points = slices.DeleteFunc(points, func(p measure.Point) bool { return q.overtaken(p.Key(), p.Time()) })
	q.ready = append(q.ready, &entry{points: points})
}

// overtaken reports whether a point newer than at was pushed for a series. If not, it
// drops the held point of the series. A point that is newer by more than setBack does
// not count: it was stamped before the wall clock was set back.
func (q *queue) overtaken(key measure.Key, at time.Time) bool {
	s := q.series[key]
	switch {
	case s == nil:
		return false
	case s.newest.After(at) && s.newest.Sub(at) <= setBack:
		q.merged++
		return true
	case s.tail != nil && s.tail.held:
		q.held = slices.DeleteFunc(q.held, func(e *entry) bool { return e == s.tail })
		s.tail = nil
		q.merged++
	case s.tail != nil:
		s.tail = nil // it is emitted before the interval, so later points must not merge into it
	}
	return false
}

// next removes and returns the entry to be emitted now. If there is none, it returns how
// long to wait for one, or a negative duration if no entry waits.
func (q *queue) next(now int64) (*entry, time.Duration) {
	q.release(now)
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

// flush makes all entries ready, without regard to the limits.
func (q *queue) flush() {
	for _, e := range q.held {
		e.held = false
	}
	q.ready = append(q.ready, q.held...)
	q.held = nil
}

// rest removes and returns all entries.
func (q *queue) rest() []*entry {
	q.flush()
	rest := q.ready
	q.ready = nil
	return rest
}

// length returns how many points wait.
func (q *queue) length() int {
	n := len(q.held)
	for _, e := range q.ready {
		n += len(e.points)
	}
	return n
}

// release moves the held entries that the limits admit now to ready.
func (q *queue) release(now int64) {
	if len(q.held) == 0 || now < q.due {
		return
	}
	soonest := time.Duration(1<<63 - 1)
	q.held = slices.DeleteFunc(q.held, func(e *entry) bool {
		if wait := q.wait(e.series, now); wait > 0 {
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

func (q *queue) wait(s *series, now int64) time.Duration {
	return max(s.limit.wait(now), q.all.wait(now))
}

func (q *queue) admit(s *series, now int64) {
	s.limit.admit(now)
	q.all.admit(now)
}
