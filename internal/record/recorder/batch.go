package recorder

import (
	"slices"
	"time"
)

// writeBatch writes the batch until the deadline passes or the context of Run ends. Entries that it does not write stay in
// the batch.
func (w *writer) writeBatch() error {
	for w.next < len(w.batch) && !w.interrupted() {
		if err := w.encodeChunk(); err != nil {
			return err
		}
		if len(w.ends) == 0 {
			if err := w.rotate(); err != nil {
				return err
			}
			continue
		}
		whole, err := w.store.append(w.enc.buf.Bytes(), w.ends)
		w.markWritten(whole)
		if err != nil {
			return err
		}
		if w.syncNow {
			if err := w.sync(); err != nil {
				return err
			}
		}
	}
	if w.next == len(w.batch) {
		clear(w.batch)
		w.batch, w.next = w.batch[:0], 0
	}
	return nil
}

// interrupted reports whether writeBatch has to stop.
func (w *writer) interrupted() bool {
	return w.ended != nil && w.ended() || !w.deadline.IsZero() && !time.Now().Before(w.deadline)
}

// encodeChunk encodes the next entries of the batch, up to the size of a chunk or the space in the segment.
func (w *writer) encodeChunk() error {
	w.enc.buf.Reset()
	w.ends = w.ends[:0]
	for i := w.next; i < len(w.batch) && w.enc.buf.Len() < chunk; i++ {
		e, sequence := &w.batch[i], w.sequence+uint64(len(w.ends))+1
		if err := w.enc.encode(sequence, e); err != nil {
			w.counts.errors.Add(1)
			w.counts.lost.Add(1)
			*e = internalRecord(KindLost, newLost(1, e.wall, err), *e)
			if err := w.enc.encode(sequence, e); err != nil {
				return err
			}
		}
		if int64(w.enc.buf.Len()) > w.store.space() {
			w.enc.buf.Truncate(w.encodedBytes())
			return nil
		}
		w.ends = append(w.ends, w.enc.buf.Len())
	}
	return nil
}

// encodedBytes returns the offset of the end of the last frame in enc.
func (w *writer) encodedBytes() int {
	if len(w.ends) == 0 {
		return 0
	}
	return w.ends[len(w.ends)-1]
}

// markWritten removes the first entries from the batch, which have been written.
func (w *writer) markWritten(whole int) {
	for _, e := range w.batch[w.next : w.next+whole] {
		if !e.internal {
			w.counts.recorded.Add(1)
		}
		w.unsynced.add(&e)
		w.syncNow = w.syncNow || e.Sync
	}
	w.next += whole
	w.sequence += uint64(whole)
	w.dirty = w.dirty || whole > 0
}

// rotate syncs the segment and starts the next one.
func (w *writer) rotate() error {
	if err := w.sync(); err != nil {
		return err
	}
	return w.store.rotate(w.sequence + 1)
}

// sync makes the written records durable.
func (w *writer) sync() error {
	if err := w.store.sync(); err != nil {
		w.countUnsyncedAsLost(err)
		return err
	}
	w.unsynced = unsynced{}
	w.dirty, w.syncNow = false, false
	w.counts.synced.Store(w.sequence)
	return nil
}

// unsynced describes the records written after the last sync.
type unsynced struct {
	records uint64 // including the records that a Lost among them counts
	entries uint64
	since   int64 // wall clock of the first record
	last    stamped
}

func (u *unsynced) add(e *stamped) {
	if u.records == 0 {
		u.since = e.wall
	}
	u.records += e.records()
	if !e.internal {
		u.entries++
	}
	u.last = stamped{wall: e.wall, boot: e.boot}
}

// countUnsyncedAsLost counts the unsynced records as lost. After a failed fsync(2) the next fsync succeeds without the pages
// that failed, and the records of a removed segment are gone. A Lost record with the error goes before the records that are
// not written yet.
func (w *writer) countUnsyncedAsLost(err error) {
	u := w.unsynced
	w.unsynced = unsynced{}
	if u.records == 0 {
		return
	}
	w.counts.lost.Add(u.entries)
	w.batch = slices.Insert(w.batch, w.next, internalRecord(KindLost, newLost(u.records, u.since, err), u.last))
}
