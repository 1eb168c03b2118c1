package emit

import (
	"context"
	"sync"
	"time"

	"rdma_events/internal/sys/wake"
	"rdma_events/internal/telemetry/measure"
)

// Emitter queues points, merges them above the limits and passes them to a Sink. It is the
// only caller of the Sink, which blocks while Telegraf does not read. Callers of Emit and
// EmitInterval never block. All methods may be called concurrently, except Run and Drain:
// only one goroutine may call them, and it uses one of the two.
type Emitter struct {
	now   func() time.Time
	start time.Time
	times seriesTimes // used only by the goroutine that calls Run or Drain
	wake  wake.Signal // holds one token whenever there is work for Run

	mu              sync.Mutex
	queue           *queue
	intervalPending bool // an interval is queued or being emitted
	closed          bool
	skipped         uint64 // intervals
	droppedLines    uint64
	droppedEvents   uint64 // events in the dropped lines
}

// New returns an Emitter that admits perSecond points of each measure.Key within any
// second, and ten times as many points in total. The times that now returns must not
// decrease.
func New(perSecond int, now func() time.Time) *Emitter {
	return NewLimited(perSecond, allSeries*perSecond, now)
}

// NewLimited returns an Emitter like New, but with the limit total for all points together.
func NewLimited(perSecond, total int, now func() time.Time) *Emitter {
	return &Emitter{
		now: now, start: now(), times: seriesTimes{last: make(map[measure.Key]time.Time)},
		wake: wake.New(), queue: newQueue(perSecond, total),
	}
}

// Emit queues one point, subject to the limits. The Emitter owns the point from then on.
// Emit does not block.
func (e *Emitter) Emit(p measure.Point) {
	e.mu.Lock()
	e.queue.push(p, e.elapsed())
	e.mu.Unlock()
	e.wake.Send()
}

// elapsed returns the ns since the Emitter was made, which is the clock of the limits.
func (e *Emitter) elapsed() int64 { return int64(e.now().Sub(e.start)) }

// AdmitInterval reports whether the caller may gather another interval. While the previous
// interval is not completely emitted, AdmitInterval counts a skipped interval and returns
// false. Nothing is lost then: the next interval covers both.
func (e *Emitter) AdmitInterval() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.intervalPending {
		e.skipped++
		return false
	}
	return true
}

// EmitInterval queues the points of one interval. The limits do not apply to them. The
// Emitter owns the points from then on. EmitInterval does not block.
func (e *Emitter) EmitInterval(points []measure.Point) {
	e.mu.Lock()
	e.queue.pushInterval(points)
	e.intervalPending = true
	e.mu.Unlock()
	e.wake.Send()
}

// Queue returns the number of waiting points, and the numbers of points merged, lines
// dropped and intervals skipped so far.
func (e *Emitter) Queue() measure.Queue {
	e.mu.Lock()
	defer e.mu.Unlock()
	return measure.Queue{
		Merged: e.queue.merged, Dropped: e.droppedLines, Skipped: e.skipped,
		Length: e.queue.length(), Capacity: e.queue.capacity,
	}
}

// Close makes Run emit all queued points regardless of the limits, and return. The caller
// must not pass points to the Emitter after Close.
func (e *Emitter) Close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.wake.Send()
}

// Run emits points to out until Close has been called and the queue is empty, or until ctx
// is done. It counts the points that remain then as dropped. Run does not return while out
// blocks.
func (e *Emitter) Run(ctx context.Context, out Sink) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		next, wait, more := e.nextEntry()
		switch {
		case next != nil:
			e.emitEntry(ctx, next, out)
		case !more:
			return
		default:
			e.waitForWork(ctx, timer, wait)
		}
	}
	e.dropQueued()
}

// Drain emits the points that the limits admit now. It returns the time until the limits
// admit the next held point, or a negative duration if no point is held. Drain serves
// callers that have no goroutine for Run.
func (e *Emitter) Drain(out Sink) (wait time.Duration) {
	for {
		next, wait, _ := e.nextEntry()
		if next == nil {
			return wait
		}
		e.emitEntry(context.Background(), next, out)
	}
}

// nextEntry returns the entry to emit now, or nil and the time to wait for one. more is
// false if no entry can follow.
func (e *Emitter) nextEntry() (next *entry, wait time.Duration, more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		e.queue.flush()
	}
	next, wait = e.queue.next(e.elapsed())
	return next, wait, !e.closed
}

// waitForWork waits until there may be work or ctx is done. If wait >= 0, it waits for at
// most that time.
func (e *Emitter) waitForWork(ctx context.Context, timer *time.Timer, wait time.Duration) {
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

// emitEntry passes the points of an entry to out until ctx is done.
func (e *Emitter) emitEntry(ctx context.Context, emitted *entry, out Sink) {
	var lines, events uint64 // dropped
	for _, p := range emitted.points {
		if dropped := out.Write(ctx, p, e.times.next(p)); dropped > 0 {
			lines += dropped
			events += p.Events()
		}
	}
	switch {
	case lines > 0:
		e.countDropped(lines, events)
	case emitted.series == nil:
		e.mu.Lock()
		e.intervalPending = false
		e.mu.Unlock()
	}
}

// dropQueued removes all queued points and counts them as dropped.
func (e *Emitter) dropQueued() {
	e.mu.Lock()
	entries := e.queue.takeAll()
	e.mu.Unlock()
	var lines, events uint64
	for _, dropped := range entries {
		for _, p := range dropped.points {
			p.Lines(func(measure.Line) { lines++ })
			events += p.Events()
		}
	}
	e.countDropped(lines, events)
}

func (e *Emitter) countDropped(lines, events uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.droppedLines += lines
	e.droppedEvents += events
}

// Dropped returns the number of lines that were never emitted, and of the events in them.
func (e *Emitter) Dropped() (lines, events uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.droppedLines, e.droppedEvents
}
