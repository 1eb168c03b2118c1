package emit

import (
	"context"
	"sync"
	"time"

	"rdma_events/internal/measure"
)

// Emitter is the only caller of an accumulator, which blocks while Telegraf does
// not read. What is given to it is queued and merged there without ever waiting.
// Its methods may be called concurrently, but for Run and Drain, of which one
// goroutine calls one.
type Emitter struct {
	now   func() time.Time
	start time.Time
	times times         // of the goroutine that emits
	wake  chan struct{} // holds one token whenever there is work for Run

	mu       sync.Mutex
	queue    *queue
	gathered bool // an interval is on its way out
	closed   bool
	skipped  uint64
	dropped  uint64
	lost     uint64 // events that dropped points were about
}

// New returns an Emitter that admits perSecond points of each measure.Key within any
// second; now does not go back.
func New(perSecond int, now func() time.Time) *Emitter {
	return &Emitter{
		now: now, start: now(), times: times{last: make(map[measure.Key]time.Time)},
		wake: make(chan struct{}, 1), queue: newQueue(perSecond),
	}
}

// Emit queues a point when it happens. The point is the Emitter's from then on.
// Emit does not block.
func (e *Emitter) Emit(p measure.Point) {
	e.mu.Lock()
	e.queue.push(p, e.clock())
	e.mu.Unlock()
	e.nudge()
}

// clock is the time of the limits, which is monotonic.
func (e *Emitter) clock() int64 { return int64(e.now().Sub(e.start)) }

// Ready reports whether another interval may be gathered, and counts where not.
// While the last one is still on its way out it may not: the next one then covers
// both, and nothing is lost.
func (e *Emitter) Ready() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gathered {
		e.skipped++
		return false
	}
	return true
}

// Interval queues the points of one interval, which the limits do not hold back. They
// are the Emitter's from then on. Interval does not block.
func (e *Emitter) Interval(points []measure.Point) {
	e.mu.Lock()
	e.queue.pushInterval(points)
	e.gathered = true
	e.mu.Unlock()
	e.nudge()
}

// Queue returns what waits now, and what was done with what waited.
func (e *Emitter) Queue() measure.Queue {
	e.mu.Lock()
	defer e.mu.Unlock()
	return measure.Queue{
		Merged: e.queue.merged, Dropped: e.dropped, Skipped: e.skipped,
		Length: e.queue.length(), Capacity: e.queue.capacity,
	}
}

// Close lets Run return once everything is emitted, whatever the limits say.
// Nothing may be given to the Emitter after it.
func (e *Emitter) Close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.nudge()
}

func (e *Emitter) nudge() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Run emits until Close was called and the queue is empty, or ctx is done;
// then what is left is counted as dropped. It does not return while the
// accumulator blocks.
func (e *Emitter) Run(ctx context.Context, acc Accumulator) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		it, wait, more := e.next()
		switch {
		case it != nil:
			e.emit(ctx, it, acc)
		case !more:
			return
		default:
			e.sleep(ctx, timer, wait)
		}
	}
	e.cut()
}

// Drain emits what is to be emitted by now and returns after which time the limits
// admit what they still hold back, negative when there is nothing. It is for those
// who have no goroutine for Run.
func (e *Emitter) Drain(acc Accumulator) (wait time.Duration) {
	for {
		it, wait, _ := e.next()
		if it == nil {
			return wait
		}
		e.emit(context.Background(), it, acc)
	}
}

// next returns what to emit now, or how long to wait for it; more is false when
// there will never be anything.
func (e *Emitter) next() (it *entry, wait time.Duration, more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		e.queue.flush()
	}
	it, wait = e.queue.next(e.clock())
	return it, wait, !e.closed
}

// sleep waits for news, and with wait >= 0 at most so long.
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

// emit hands over the lines of an entry, until ctx is done.
func (e *Emitter) emit(ctx context.Context, it *entry, acc Accumulator) {
	var lines, events uint64 // that are dropped
	for _, p := range it.points {
		t := e.times.next(p)
		p.Lines(func(l measure.Line) {
			if lines == 0 {
				acc.AddFields(l.Name, l.Fields, l.Tags, t)
			}
			// Done while AddFields was blocked: the line has most likely not come through.
			if ctx.Err() != nil {
				lines++
			}
		})
		if lines > 0 {
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

// cut counts what the deadline cuts off.
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
