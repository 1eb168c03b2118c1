package recorder

import (
	"slices"
	"time"
)

// write writes the batch, unless the deadline passes or Run's context ends. What is left stays in the batch.
func (w *writer) write() error {
	for w.next < len(w.batch) && !w.interrupted() {
		if err := w.encode(); err != nil {
			return err
		}
		if len(w.ends) == 0 {
			if err := w.rotate(); err != nil {
				return err
			}
			continue
		}
		whole, err := w.store.append(w.enc.buf.Bytes(), w.ends)
		w.wrote(whole)
		if err != nil {
			return err
		}
		if w.urgent {
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

func (w *writer) interrupted() bool {
	return w.ended != nil && w.ended() || !w.deadline.IsZero() && !time.Now().Before(w.deadline)
}

// encode makes the frames of the next entries: a chunk, or as many as the segment has space for.
func (w *writer) encode() error {
	w.enc.buf.Reset()
	w.ends = w.ends[:0]
	for i := w.next; i < len(w.batch) && w.enc.buf.Len() < chunk; i++ {
		e, sequence := &w.batch[i], w.sequence+uint64(len(w.ends))+1
		if err := w.enc.encode(sequence, e); err != nil {
			w.counts.errors.Add(1)
			w.counts.lost.Add(1)
			*e = own(KindLost, newLost(1, e.wall, err), *e)
			if err := w.enc.encode(sequence, e); err != nil {
				return err
			}
		}
		if int64(w.enc.buf.Len()) > w.store.space() {
			w.enc.buf.Truncate(w.filled())
			return nil
		}
		w.ends = append(w.ends, w.enc.buf.Len())
	}
	return nil
}

// filled returns where the last frame in enc ends.
func (w *writer) filled() int {
	if len(w.ends) == 0 {
		return 0
	}
	return w.ends[len(w.ends)-1]
}

// wrote takes the first entries off the batch.
func (w *writer) wrote(whole int) {
	for _, e := range w.batch[w.next : w.next+whole] {
		if !e.own {
			w.counts.recorded.Add(1)
		}
		w.unsynced.add(&e)
		w.urgent = w.urgent || e.Sync
	}
	w.next += whole
	w.sequence += uint64(whole)
	w.dirty = w.dirty || whole > 0
}

func (w *writer) rotate() error {
	if err := w.sync(); err != nil {
		return err
	}
	return w.store.rotate(w.sequence + 1)
}

func (w *writer) sync() error {
	if err := w.store.sync(); err != nil {
		w.missed(err)
		return err
	}
	w.unsynced = unsynced{}
	w.dirty, w.urgent = false, false
	w.counts.synced.Store(w.sequence)
	return nil
}

// unsynced is what was written after the last sync.
type unsynced struct {
	records uint64 // with those that a record of lost ones has counted
	entries uint64
	since   int64 // the wall clock of the first one
	last    stamped
}

func (u *unsynced) add(e *stamped) {
	if u.records == 0 {
		u.since = e.wall
	}
	u.records += e.records()
	if !e.own {
		u.entries++
	}
	u.last = stamped{wall: e.wall, boot: e.boot}
}

// missed counts as lost what is not synced and will not be: after a failed fsync(2) the next one succeeds without the
// pages that failed, and a removed segment has no name. A record says so, before those that are not written yet.
func (w *writer) missed(why error) {
	u := w.unsynced
	w.unsynced = unsynced{}
	if u.records == 0 {
		return
	}
	w.counts.lost.Add(u.entries)
	w.batch = slices.Insert(w.batch, w.next, own(KindLost, newLost(u.records, u.since, why), u.last))
}
