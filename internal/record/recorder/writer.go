package recorder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

const (
	syncInterval  = time.Second
	retryInterval = time.Minute
	// chunk is how much is written at a time.
	chunk = 64 << 10
)

// writer writes what the queue has. All is done by one goroutine.
type writer struct {
	path   string
	queue  *queue
	counts *counters
	store  *store
	log    *slog.Logger
	enc    *encoder
	opened stamped // has the time of Open
	clock  func() (wall, boot int64)
	alive  time.Duration // Config.AliveEvery
	// drainTime is how long the queue is written after the end of Run's context.
	drainTime time.Duration

	batch    []stamped
	next     int       // of batch, the first one that is not written
	spare    []stamped // memory for the queue's next entries
	ends     []int     // of the frames in enc
	sequence uint64    // of the last record written
	offset   int64     // of the wall clock from the boot clock, ns
	compared bool      // offset is known
	started  bool
	dirty    bool // something is not synced
	unsynced unsynced
	urgent   bool        // it has to be synced at once
	failed   error       // nil: the disk works
	deadline time.Time   // of write; zero: none
	ended    func() bool // interrupts write for finish; nil: nothing does
}

func newWriter(c Config, q *queue, counts *counters, s *store) *writer {
	w := &writer{path: c.Directory, queue: q, counts: counts, store: s, log: c.Log, enc: newEncoder(c.BootID, c.Host)}
	w.clock, w.alive, w.drainTime = c.Clock, c.AliveEvery, c.CloseTime*3/4
	w.opened.wall, w.opened.boot = c.Clock()
	return w
}

// run writes until ctx ends, and then what is left.
func (w *writer) run(ctx context.Context) error {
	var sync, retry <-chan time.Time
	w.ended = func() bool { return ctx.Err() != nil }
	w.do(w.open)
	if w.failed == nil {
		w.do(w.drain)
	}
	quiet := time.NewTimer(w.alive)
	defer quiet.Stop()
	if w.alive == 0 {
		quiet.Stop()
	}
	for ctx.Err() == nil {
		wake := w.queue.wake
		switch {
		case w.failed != nil:
			wake, sync = nil, nil
			if retry == nil {
				retry = time.After(retryInterval)
			}
		case !w.dirty:
			sync = nil
		case sync == nil:
			sync = time.After(syncInterval)
		}
		select {
		case <-ctx.Done():
		case <-wake:
			w.do(w.drain)
			if w.alive > 0 {
				quiet.Reset(w.alive)
			}
		case <-quiet.C:
			quiet.Reset(w.alive)
			if w.failed == nil {
				w.do(w.tellAlive)
			}
		case <-sync:
			sync = nil
			w.do(w.sync)
		case <-retry:
			retry = nil
			w.do(w.recover)
		}
	}
	return w.finish()
}

// do takes a step. If it fails, the disk counts as failed until recover succeeds. A segment that was removed is no failure
// of the disk, so that recover is tried at once.
func (w *writer) do(step func() error) {
	err := step()
	if err == nil {
		return
	}
	w.counts.errors.Add(1)
	first := w.failed == nil
	switch {
	case !first:
	case w.started:
		w.log.Warn("recorder cannot write; it tries again", "directory", w.path, "every", retryInterval.String(), "error", err)
	default:
		w.log.Warn(fmt.Sprintf("%v; it is tried again every %s; nothing is recorded, and all else goes on", err, retryInterval))
	}
	w.failed = err
	w.dirty, w.urgent = false, false
	w.store.cut()
	if first && errors.Is(err, errRemoved) {
		w.do(w.recover)
	}
}

// open opens the store. The first time it also makes the record of the start.
func (w *writer) open() error {
	p, err := w.store.open(w.sequence)
	if err != nil {
		return fmt.Errorf("open recorder's directory %s: %w", w.path, err)
	}
	if p.last.Sequence < w.sequence {
		w.missed(errRemoved) // the segment that had them
	}
	w.sequence = p.sequence
	if w.started {
		return nil
	}
	w.started = true
	if p.last.BootID == w.enc.bootID {
		w.offset, w.compared = p.last.Time.UnixNano()-p.last.BootNS, true
	}
	w.push(own(KindStart, Start{
		Clean: p.last.Kind == KindEnd, CutBytes: p.cut, AliveNS: int64(w.alive),
		LastSequence: p.last.Sequence, LastTime: p.last.Time, LastBootID: p.last.BootID,
	}, w.opened))
	return nil
}

// recover tries the disk again after a failure.
func (w *writer) recover() error {
	if err := w.open(); err != nil {
		return err
	}
	// Before the failure frames may have been written and not synced.
	w.dirty = true
	if err := w.write(); err != nil {
		return err
	}
	was := w.failed
	w.failed = nil
	w.log.Info("recorder writes again", "directory", w.path, "lost", w.counts.lost.Load())
	w.fill(w.queue.take(w.spare), was)
	return w.write()
}

// drain writes what is queued, while the disk works.
func (w *writer) drain() error {
	w.fill(w.queue.take(w.spare), nil)
	return w.write()
}

// fill appends to the batch what was queued, and how much was lost since then. was is the failure that ended before.
func (w *writer) fill(t taken, was error) {
	for _, e := range t.entries {
		w.push(e)
	}
	clear(t.entries)
	w.spare = t.entries
	if t.lost > 0 {
		w.push(own(KindLost, newLost(t.lost, t.since, was), t.now))
	}
}

// push appends to the batch, after a record of the clock's step if there was one.
func (w *writer) push(e stamped) {
	offset := e.wall - e.boot
	if step := offset - w.offset; w.compared && max(step, -step) >= leastStep {
		w.batch = append(w.batch, own(KindClock, Clock{StepNS: step}, e))
	}
	w.offset, w.compared = offset, true
	w.batch = append(w.batch, e)
}

// tellAlive writes that the recorder runs.
func (w *writer) tellAlive() error {
	now := stamped{}
	now.wall, now.boot = w.clock()
	w.push(own(KindAlive, Alive{AliveNS: int64(w.alive)}, now))
	return w.write()
}

// finish writes what is left, as far as w.drainTime allows, and the end of the run, and closes the directory.
func (w *writer) finish() error {
	defer w.store.close()
	w.ended = nil
	w.deadline = time.Now().Add(w.drainTime)
	if w.failed != nil {
		w.do(w.recover)
	}
	t := w.queue.close(w.spare)
	w.fill(t, w.failed)
	if w.failed == nil {
		w.do(w.write)
	}
	lost, since := w.abandon()
	if w.failed != nil {
		return fmt.Errorf("close recorder in %s: %d records are lost: %w", w.path, lost, w.failed)
	}
	w.deadline = time.Time{}
	if lost > 0 {
		w.push(own(KindLost, newLost(lost, since, nil), t.now))
	}
	w.end(t.now)
	if w.failed == nil && w.dirty { // the segment was removed, and begun again
		w.end(t.now)
	}
	if w.failed != nil {
		return fmt.Errorf("close recorder in %s: %w", w.path, w.failed)
	}
	if lost > 0 {
		return fmt.Errorf("close recorder in %s: %d records are lost: the disk is too slow to write them within %s", w.path, lost, w.drainTime)
	}
	return nil
}

// end writes the end of the run.
func (w *writer) end(now stamped) {
	w.push(own(KindEnd, nil, now))
	w.do(w.write)
	if w.failed == nil {
		w.do(w.sync)
	}
}

// abandon gives up the batch. It returns how many records are lost that no written record has counted, and since when.
func (w *writer) abandon() (lost uint64, since int64) {
	for _, e := range w.batch[w.next:] {
		n := e.records()
		if !e.own {
			w.counts.lost.Add(1)
		}
		if lost == 0 && n > 0 {
			since = e.wall
		}
		lost += n
	}
	w.batch, w.next = nil, 0
	return lost, since
}
