package emit

import (
	"slices"
	"time"

	"rdma_events/internal/measure"
)

// queue decides what is emitted when: points below the limits at once and one
// by one, points above them merged into one of their series that is held until
// the limits admit it. Its memory is bounded by its capacity and the number of
// series. It is not safe for concurrent use, and knows no clock: now is in ns.
type queue struct {
	perSecond int // points of one series
	capacity  int // entries in ready above which everything merges
	all       window
	series    map[measure.Key]*series
	full      int      // as many of them are looked through
	ready     []*entry // in the order in which they are emitted
	held      []*entry // in the order in which they wait
	due       int64    // no held entry is admitted before
	merged    uint64
}

type series struct {
	limit  window
	tail   *entry    // the last entry, while it waits
	newest time.Time // of what was pushed
}

// entry is one point of a series, or all points of an interval.
type entry struct {
	points []measure.Point
	series *series // nil for an interval
	held   bool
}

// minCapacity lets a burst on many devices through even when the limits are low.
const minCapacity = 1000

// allSeries is how many times the limit of one series goes for all together.
const allSeries = 10

func newQueue(perSecond int) *queue {
	return &queue{
		perSecond: perSecond,
		capacity:  max(minCapacity, allSeries*perSecond),
		all:       window{limit: allSeries * perSecond},
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
	// Who waits has the first claim on a free place.
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

// pushInterval queues what one Gather emits. A point of it replaces an older one of
// its key that is held, and gives way to a newer one.
func (q *queue) pushInterval(points []measure.Point) {
	points = slices.DeleteFunc(points, func(p measure.Point) bool { return q.overtaken(p.Key(), p.Time()) })
	q.ready = append(q.ready, &entry{points: points})
}

// overtaken reports whether something newer than at was pushed for a series,
// and drops what is held of it otherwise. What is newer by more than setBack
// was stamped before the wall clock was set back.
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
		s.tail = nil // it is emitted before the interval, so what comes now must not join it
	}
	return false
}

// next takes out the entry to be emitted now. Without one it returns how long
// to wait until there is one, or a negative duration when nothing waits.
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

// flush makes everything ready, whatever the limits say.
func (q *queue) flush() {
	for _, e := range q.held {
		e.held = false
	}
	q.ready = append(q.ready, q.held...)
	q.held = nil
}

// rest takes out everything.
func (q *queue) rest() []*entry {
	q.flush()
	rest := q.ready
	q.ready = nil
	return rest
}

// length is how many points wait.
func (q *queue) length() int {
	n := len(q.held)
	for _, e := range q.ready {
		n += len(e.points)
	}
	return n
}

// release moves to ready what the limits admit by now.
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
