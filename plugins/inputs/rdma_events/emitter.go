package rdma_events

import (
	"context"
	"sync"
	"time"

	"github.com/influxdata/telegraf"

	"rdma_events/internal/measure"
)

// emitter is the only caller of the accumulator, which blocks while Telegraf
// does not read. It is the measure.Sink: what happens is queued and merged
// there without ever waiting. One goroutine in Run empties the queue.
type emitter struct {
	metrics *measure.Tables
	now     func() time.Time
	start   time.Time

	wake chan struct{} // holds one token whenever there is news for Run

	mu       sync.Mutex
	queue    *queue
	gathered bool // an interval is on its way out
	closed   bool
	skipped  uint64
	dropped  uint64
	lost     uint64 // events that dropped points were about
}

func newEmitter(m *measure.Tables, perSecond int, now func() time.Time) *emitter {
	return &emitter{
		metrics: m, now: now, start: now(),
		wake: make(chan struct{}, 1), queue: newQueue(perSecond),
	}
}

var _ measure.Sink = (*emitter)(nil)

// Event implements measure.Sink.
func (e *emitter) Event(p measure.Event) {
	if p.First.IsZero() {
		p.First = p.Time
	}
	e.push(seriesKey{"rdma_async_event", p.Device, p.Port, p.Type}, &eventItem{p})
}

// Change implements measure.Sink.
func (e *emitter) Change(p measure.Change) {
	e.push(seriesKey{measurement: "rdma_port_change", device: p.Device, port: p.Port}, &changeItem{p})
}

// Port implements measure.Sink.
func (e *emitter) Port(v measure.Port) { e.push(portKey(&v), &portItem{v}) }

// Device implements measure.Sink.
func (e *emitter) Device(v measure.Device) { e.push(deviceKey(&v), &deviceItem{v}) }

func (e *emitter) push(key seriesKey, it item) {
	e.mu.Lock()
	e.queue.push(key, it, e.clock())
	e.mu.Unlock()
	e.nudge()
}

// clock is the time of the limits, which is monotonic.
func (e *emitter) clock() int64 { return int64(e.now().Sub(e.start)) }

// ready reports whether another interval may be gathered. While the last one
// is still on its way out it may not: the next one then covers both, and
// nothing is lost.
func (e *emitter) ready() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gathered {
		e.skipped++
		return false
	}
	return true
}

// interval queues a snapshot, which belongs to the emitter from then on.
func (e *emitter) interval(s *measure.Snapshot, u measure.Usage, now time.Time) {
	e.mu.Lock()
	own := measure.Own{Queue: e.stats(), Usage: u}
	e.queue.pushInterval(&interval{s, own, now})
	e.gathered = true
	e.mu.Unlock()
	e.nudge()
}

// stats is called with mu held.
func (e *emitter) stats() measure.Queue {
	return measure.Queue{
		Merged: e.queue.merged, Dropped: e.dropped, Skipped: e.skipped,
		Length: e.queue.length(), Capacity: e.queue.capacity,
	}
}

// close lets Run return once everything is emitted, whatever the limits say.
// Nothing may be pushed after it.
func (e *emitter) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.nudge()
}

func (e *emitter) nudge() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Run emits until close was called and the queue is empty, or ctx is done;
// then what is left is counted as dropped. It does not return while the
// accumulator blocks.
func (e *emitter) Run(ctx context.Context, acc telegraf.Accumulator) {
	out := output{acc: acc, last: make(map[string]time.Time)}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		it, wait, more := e.next()
		switch {
		case it != nil:
			e.emit(ctx, it, &out)
		case !more:
			return
		default:
			e.sleep(ctx, timer, wait)
		}
	}
	e.cut()
}

// next returns what to emit now, or how long to wait for it; more is false when
// there will never be anything.
func (e *emitter) next() (it *entry, wait time.Duration, more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		e.queue.flush()
	}
	it, wait = e.queue.next(e.clock())
	return it, wait, !e.closed
}

// sleep waits for news, and with wait >= 0 at most so long.
func (e *emitter) sleep(ctx context.Context, timer *time.Timer, wait time.Duration) {
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

func (e *emitter) emit(ctx context.Context, it *entry, out *output) {
	points := it.points(e.metrics)
	for i := range points {
		out.add(&points[i])
		// Done while add was blocked: the point has most likely not come through.
		if ctx.Err() != nil {
			e.drop(uint64(len(points)-i), it.events())
			return
		}
	}
	if it.series == nil {
		e.mu.Lock()
		e.gathered = false
		e.mu.Unlock()
	}
}

// cut counts what the deadline cuts off.
func (e *emitter) cut() {
	e.mu.Lock()
	rest := e.queue.rest()
	e.mu.Unlock()
	for _, it := range rest {
		e.drop(uint64(len(it.points(e.metrics))), it.events())
	}
}

func (e *emitter) drop(points, events uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dropped += points
	e.lost += events
}

// left returns how many points, and events in them, were never emitted.
func (e *emitter) left() (points, events uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dropped, e.lost
}
