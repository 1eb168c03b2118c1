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
	// chunk is the number of bytes that are written at a time.
	chunk = 64 << 10
)

// writer writes the entries of the queue. It is used by one goroutine.
type writer struct {
	path          string
	queue         *queue
	counts        *counters
	store         *store
	log           *slog.Logger
	enc           *encoder
	openTime      stamped // time of Open
	clock         func() (wall, boot int64)
	aliveInterval time.Duration // Config.AliveEvery
	// drainTime is the time for writing the queue after the context of Run has ended.
	drainTime time.Duration

	batch    []stamped
	next     int       // index in batch of the first unwritten entry
	spare    []stamped // memory for the next entries of the queue
	ends     []int     // offsets of the ends of the frames in enc
	sequence uint64    // of the last record written
	offset   int64     // wall clock minus boot clock, ns
	compared bool      // offset is known
	started  bool
	dirty    bool // some records are not synced
	unsynced unsynced
	syncNow  bool        // the records have to be synced at once
	failure  error       // nil: the disk works
	deadline time.Time   // of writeBatch; zero: none
	ended    func() bool // interrupts writeBatch when the context of Run has ended; nil: never
}

func newWriter(c Config, q *queue, counts *counters, s *store) *writer {
	w := &writer{path: c.Directory, queue: q, counts: counts, store: s, log: c.Log, enc: newEncoder(c.BootID, c.Host)}
	w.clock, w.aliveInterval, w.drainTime = c.Clock, c.AliveEvery, c.CloseTime*3/4
	w.openTime.wall, w.openTime.boot = c.Clock()
	return w
}

// run writes until ctx ends, and then writes the remaining entries.
func (w *writer) run(ctx context.Context) error {
	var sync, retry <-chan time.Time
	w.ended = func() bool { return ctx.Err() != nil }
	w.attempt(w.open)
	if w.failure == nil {
		w.attempt(w.writeQueued)
	}
	quiet := time.NewTimer(w.aliveInterval)
	defer quiet.Stop()
	if w.aliveInterval == 0 {
		quiet.Stop()
	}
	for ctx.Err() == nil {
		wake := w.queue.wake
		switch {
		case w.failure != nil:
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
			w.attempt(w.writeQueued)
			if w.aliveInterval > 0 {
				quiet.Reset(w.aliveInterval)
			}
		case <-quiet.C:
			quiet.Reset(w.aliveInterval)
			if w.failure == nil {
				w.attempt(w.writeAlive)
			}
		case <-sync:
			sync = nil
			w.attempt(w.sync)
		case <-retry:
			retry = nil
			w.attempt(w.recover)
		}
	}
	return w.finish()
}

// attempt runs one step. If the step fails, the disk counts as failed until recover succeeds. A removed segment is not a
// failure of the disk, so attempt then calls recover at once.
func (w *writer) attempt(step func() error) {
	err := step()
	if err == nil {
		return
	}
	w.counts.errors.Add(1)
	first := w.failure == nil
	switch {
	case !first:
	case w.started:
		w.log.Warn("recorder: write failed", "directory", w.path, "retry_in", retryInterval.String(), "error", err)
	default:
		w.log.Warn("recorder: nothing is recorded", "retry_in", retryInterval.String(), "error", err)
	}
	w.failure = err
	w.dirty, w.syncNow = false, false
	w.store.truncateAndClose()
	if first && errors.Is(err, errRemoved) {
		w.attempt(w.recover)
	}
}

// open opens the store. At the first success it also adds the start record.
func (w *writer) open() error {
	prior, err := w.store.open(w.sequence)
	if err != nil {
		return fmt.Errorf("open directory %s: %w", w.path, err)
	}
	if prior.last.Sequence < w.sequence {
		w.countUnsyncedAsLost(errRemoved) // the segment that held them was removed
	}
	w.sequence = prior.sequence
	if w.started {
		return nil
	}
	w.started = true
	if prior.last.BootID == w.enc.bootID {
		w.offset, w.compared = prior.last.Time.UnixNano()-prior.last.BootNS, true
	}
	w.appendToBatch(internalRecord(KindStart, Start{
		Clean: prior.last.Kind == KindEnd, CutBytes: prior.cut, AliveNS: int64(w.aliveInterval),
		LastSequence: prior.last.Sequence, LastTime: prior.last.Time, LastBootID: prior.last.BootID,
	}, w.openTime))
	return nil
}

// recover tries to use the disk again after a failure.
func (w *writer) recover() error {
	if err := w.open(); err != nil {
		return err
	}
	// Frames may have been written but not synced before the failure.
	w.dirty = true
	if err := w.writeBatch(); err != nil {
		return err
	}
	failure := w.failure
	w.failure = nil
	w.log.Info("recorder: writing again", "directory", w.path, "lost", w.counts.lost.Load())
	w.addToBatch(w.queue.takeAll(w.spare), failure)
	return w.writeBatch()
}

// writeQueued writes the queued entries. The disk has to work.
func (w *writer) writeQueued() error {
	w.addToBatch(w.queue.takeAll(w.spare), nil)
	return w.writeBatch()
}

// addToBatch appends the content of the queue to the batch, with a Lost record if entries were lost. failure is the failure of
// the disk that caused the loss, or nil.
func (w *writer) addToBatch(t queueContents, failure error) {
	for _, e := range t.entries {
		w.appendToBatch(e)
	}
	clear(t.entries)
	w.spare = t.entries
	if t.lost > 0 {
		w.appendToBatch(internalRecord(KindLost, newLost(t.lost, t.since, failure), t.now))
	}
}

// appendToBatch appends an entry to the batch. If the wall clock was set since the previous entry, it appends a Clock record
// first.
func (w *writer) appendToBatch(e stamped) {
	offset := e.wall - e.boot
	if step := offset - w.offset; w.compared && max(step, -step) >= minClockStep {
		w.batch = append(w.batch, internalRecord(KindClock, Clock{StepNS: step}, e))
	}
	w.offset, w.compared = offset, true
	w.batch = append(w.batch, e)
}

// writeAlive writes a record that the recorder is running.
func (w *writer) writeAlive() error {
	now := stamped{}
	now.wall, now.boot = w.clock()
	w.appendToBatch(internalRecord(KindAlive, Alive{AliveNS: int64(w.aliveInterval)}, now))
	return w.writeBatch()
}

// finish writes the remaining entries for at most w.drainTime, then the end record, and closes the directory.
func (w *writer) finish() error {
	defer w.store.close()
	w.ended = nil
	w.deadline = time.Now().Add(w.drainTime)
	if w.failure != nil {
		w.attempt(w.recover)
	}
	t := w.queue.close(w.spare)
	w.addToBatch(t, w.failure)
	if w.failure == nil {
		w.attempt(w.writeBatch)
	}
	lost, since := w.abandonBatch()
	if w.failure != nil {
		return fmt.Errorf("close recorder in %s: %d records are lost: %w", w.path, lost, w.failure)
	}
	w.deadline = time.Time{}
	if lost > 0 {
		w.appendToBatch(internalRecord(KindLost, newLost(lost, since, nil), t.now))
	}
	w.writeEnd(t.now)
	if w.failure == nil && w.dirty { // the segment was removed, and recover started a new one
		w.writeEnd(t.now)
	}
	if w.failure != nil {
		return fmt.Errorf("close recorder in %s: %w", w.path, w.failure)
	}
	if lost > 0 {
		return fmt.Errorf("close recorder in %s: %d records are lost: the disk is too slow to write them within %s", w.path, lost, w.drainTime)
	}
	return nil
}

// writeEnd writes and syncs the end record.
func (w *writer) writeEnd(now stamped) {
	w.appendToBatch(internalRecord(KindEnd, nil, now))
	w.attempt(w.writeBatch)
	if w.failure == nil {
		w.attempt(w.sync)
	}
}

// abandonBatch discards the batch. It returns the number of lost records that no Lost record counts, and the time of the first
// one.
func (w *writer) abandonBatch() (lost uint64, since int64) {
	for _, e := range w.batch[w.next:] {
		n := e.records()
		if !e.internal {
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
