package emit

import (
	"context"
	"sync"
	"time"

	"rdma_events/internal/sys/wake"
	"rdma_events/internal/telemetry/measure"
)

// Emitter is the only caller of an accumulator, which blocks while Telegraf does not
// read. It queues and merges points, so that no caller of Emit or Interval ever waits.
// Its methods may be called concurrently, except Run and Drain: one goroutine calls
// either Run or Drain.
type Emitter struct {
	now   func() time.Time
	start time.Time
	times times       // used only by the goroutine that emits
	wake  wake.Signal // holds one token whenever there is work for Run

	mu       sync.Mutex
	queue    *queue
	gathered bool // an interval is queued or being emitted
	closed   bool
	skipped  uint64
	dropped  uint64
	lost     uint64 // events in the dropped points
}

// New returns an Emitter that admits perSecond points of each measure.Key within any
// second, and ten times as many of all together; now must not go back.
func New(perSecond int, now func() time.Time) *Emitter {
	return NewLimited(perSecond, allSeries*perSecond, now)
}

// NewLimited is New with another limit for all points together.
func NewLimited(perSecond, all int, now func() time.Time) *Emitter {
	return &Emitter{
		now: now, start: now(), times: times{last: make(map[measure.Key]time.Time)},
		wake: wake.New(), queue: newQueue(perSecond, all),
	}
}

// Emit queues a point when it happens. The Emitter owns the point from then on. Emit
// does not block.
func (e *Emitter) Emit(p measure.Point) {
	e.mu.Lock()
	e.queue.push(p, e.clock())
	e.mu.Unlock()
	e.wake.Send()
}

// clock returns the time for the limits in ns, which is monotonic.
func (e *Emitter) clock() int64 { return int64(e.now().Sub(e.start)) }

// Ready reports whether another interval may be gathered. While the last one is not yet
// emitted, Ready returns false and counts a skipped interval: the next interval then
// covers both, and nothing is lost.
func (e *Emitter) Ready() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gathered {
		e.skipped++
		return false
	}
	return true
}

// Interval queues the points of one interval, to which the limits do not apply. The
// Emitter owns them from then on. Interval does not block.
func (e *Emitter) Interval(points []measure.Point) {
	e.mu.Lock()
	e.queue.pushInterval(points)
	e.gathered = true
	e.mu.Unlock()
	e.wake.Send()
}

// Queue returns how many points wait, and how many points were merged or dropped and
// intervals skipped so far.
func (e *Emitter) Queue() measure.Queue {
	e.mu.Lock()
	defer e.mu.Unlock()
	return measure.Queue{
		Merged: e.queue.merged, Dropped: e.dropped, Skipped: e.skipped,
		Length: e.queue.length(), Capacity: e.queue.capacity,
	}
}

// Close makes Run emit everything without regard to the limits, and return. No point
// may be passed to the Emitter after Close.
func (e *Emitter) Close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.wake.Send()
}

// Run emits until Close was called and the queue is empty, or until ctx is done. Points
// that are left then are counted as dropped. Run does not return while the sink blocks.
func (e *Emitter) Run(ctx context.Context, out Sink) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		it, wait, more := e.next()
		switch {
		case it != nil:
			e.emit(ctx, it, out)
		case !more:
			return
		default:
			e.sleep(ctx, timer, wait)
		}
	}
	e.cut()
}

// Drain emits the points that the limits admit now. It returns how long to wait until
// the limits admit a point that is still held, or a negative duration if none is held.
// It is for callers that have no goroutine for Run.
func (e *Emitter) Drain(out Sink) (wait time.Duration) {
	for {
		it, wait, _ := e.next()
		if it == nil {
			return wait
		}
		e.emit(context.Background(), it, out)
	}
}

// next returns the entry to emit now, or how long to wait for one. more is false if no
// entry can follow.
func (e *Emitter) next() (it *entry, wait time.Duration, more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		e.queue.flush()
	}
	it, wait = e.queue.next(e.clock())
	return it, wait, !e.closed
}

// sleep waits until there may be work or ctx is done, with wait >= 0 at most that long.
func (e *Emitter) sleep(ctx context.Context, timer *time.Timer, wait time.Duration) {
	var due <-chan time.Time
	if wait >= 0 {
		timer.Reset(wait)
		due = timer.C
	}
	select {
	case <-ctx.Done():
	case <-e.wake:
	case <-due:
	}
}

// emit passes the points of an entry to out until ctx is done.
func (e *Emitter) emit(ctx context.Context, it *entry, out Sink) {
	var lines, events uint64 // dropped ones
	for _, p := range it.points {
		if lost := out.Put(ctx, p, e.times.next(p)); lost > 0 {
			lines += lost
			events += p.Events()
		}
	}
	switch {
	case lines > 0:
		e.drop(lines, events)
	case it.series == nil:
		e.mu.Lock()
		e.gathered = false
		e.mu.Unlock()
	}
}

// cut counts all queued points as dropped.
func (e *Emitter) cut() {
	e.mu.Lock()
	rest := e.queue.rest()
	e.mu.Unlock()
	var lines, events uint64
	for _, it := range rest {
		for _, p := range it.points {
			p.Lines(func(measure.Line) { lines++ })
			events += p.Events()
		}
	}
	e.drop(lines, events)
}

func (e *Emitter) drop(lines, events uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dropped += lines
	e.lost += events
}

// Left returns how many lines, and events in them, were never emitted.
func (e *Emitter) Left() (lines, events uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dropped, e.lost
}
