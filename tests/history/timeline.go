package history

import (
	"container/heap"
	"iter"
	"math"
)

// never is later than anything on a timeline.
const never = math.MaxInt64

// timeline runs lanes, each until it waits, in the order of time. Only one
// goroutine runs at any moment, so lanes may share memory without locks.
type timeline struct {
	now     int64
	seq     uint64
	queue   lanes
	alive   map[*lane]struct{} // lanes that are not over
	current *lane
	after   func() // called after each step of a lane
}

// died unwinds a lane whose process has died.
type died struct{}

// lane is a thread of control in simulated time.
type lane struct {
	at    int64 // when it continues
	seq   uint64
	index int // in the queue; -1 if it is not there
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	over  bool
	limit int64 // how long inCall waits before the caller gives up; 0: no limit
}

func newTimeline(now int64, after func()) timeline {
	return timeline{now: now, after: after, alive: map[*lane]struct{}{}}
}

// start adds a lane that begins at a moment.
func (t *timeline) start(at int64, f func()) *lane {
	l := &lane{index: -1}
	l.next, l.stop = iter.Pull(func(yield func(struct{}) bool) {
		l.yield = yield
		defer func() {
			if r := recover(); r != nil && r != (died{}) {
				panic(r)
			}
		}()
		f()
	})
	t.alive[l] = struct{}{}
	t.rouse(l, at)
	return l
}

// rouse makes a lane that waits continue at a moment, unless it continues earlier.
func (t *timeline) rouse(l *lane, at int64) {
	if l.over || l == t.current || l.index >= 0 && l.at <= at || at == never {
		return
	}
	if l.index >= 0 {
		heap.Remove(&t.queue, l.index)
	}
	t.seq++
	l.at, l.seq = max(at, t.now), t.seq
	heap.Push(&t.queue, l)
}

// wait lets other lanes run until a moment, or until rouse wakes the calling lane.
// It returns false if the calling lane was ended and must return.
func (t *timeline) wait(until int64) bool {
	l := t.current
	if l == nil || l.over {
		return false
	}
	t.current = nil
	t.rouse(l, until)
	return l.yield(struct{}{}) && !l.over
}

// end ends a lane other than the current one.
func (t *timeline) end(l *lane) {
	if l.over {
		return
	}
	l.over = true
	delete(t.alive, l)
	if l.index >= 0 {
		heap.Remove(&t.queue, l.index)
	}
	current := t.current
	t.current = l
	l.stop()
	t.current = current
}

// close ends all lanes.
func (t *timeline) close() {
	for l := range t.alive {
		t.end(l)
	}
}

// run runs all lanes until a moment.
func (t *timeline) run(until int64) {
	for len(t.queue) > 0 && t.queue[0].at <= until {
		l := heap.Pop(&t.queue).(*lane)
		t.now, t.current = l.at, l
		if _, waits := l.next(); !waits {
			l.over = true
			delete(t.alive, l)
		}
		t.current = nil
		t.after()
	}
	t.now = until
}

// lanes is a heap by time, and of equal times by the order of waiting.
type lanes []*lane

func (q lanes) Len() int { return len(q) }

func (q lanes) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}

func (q lanes) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *lanes) Push(x any) {
	l := x.(*lane)
	l.index = len(*q)
	*q = append(*q, l)
}

func (q *lanes) Pop() any {
	old := *q
	l := old[len(old)-1]
	l.index = -1
	*q = old[:len(old)-1]
	return l
}
