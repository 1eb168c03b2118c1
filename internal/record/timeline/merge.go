package timeline

import (
	"errors"
	"iter"

	"rdma_events/internal/record/recorder"
)

// errStopped ends a Printer whose reader wants no more.
var errStopped = errors.New("no more records are wanted")

// Read returns the records of one recorder as a Printer writes them: an event and the change of state that it caused are one,
// and records are in the order of their times, or in the order in which they were recorded. bad gets the error of a record that
// is left out. An error is the last element.
func Read(records iter.Seq2[recorder.Record, error], asRecorded bool, bad func(error)) iter.Seq2[Kept, error] {
	return func(yield func(Kept, error) bool) {
		p := Printer{JSON: asRecorded, put: func(k *Kept) error {
			if !yield(*k, nil) {
				return errStopped
			}
			return nil
		}}
		for r, err := range records {
			if err != nil {
				yield(Kept{}, err)
				return
			}
			k, err := NewKept(&r)
			if err != nil {
				bad(err)
				continue
			}
			if p.Add(k) != nil {
				return
			}
		}
		_ = p.Flush() // its only error is that of the reader, who has gone
	}
}

// Merge merges the records of several hosts by their times. The records of one host keep their own order, also where its clock was
// set back. Of equal times the earlier stream goes first. An error is the last element. Memory has one record of each stream.
func Merge(streams []iter.Seq2[Kept, error]) iter.Seq2[Kept, error] {
	return func(yield func(Kept, error) bool) {
		var heads []head
		for _, stream := range streams {
			next, stop := iter.Pull2(stream)
			defer stop()
			h := head{next: next}
			if h.advance() {
				heads = append(heads, h)
			}
		}
		for len(heads) > 0 {
			first := 0
			for i := range heads {
				if heads[i].err != nil || heads[first].err == nil && heads[i].Time.Before(heads[first].Time) {
					first = i
				}
			}
			h := &heads[first]
			if !yield(h.Kept, h.err) || h.err != nil {
				return
			}
			if !h.advance() {
				heads = append(heads[:first], heads[first+1:]...)
			}
		}
	}
}

// head is the first record of a stream that has not been merged yet.
type head struct {
	Kept
	err  error
	next func() (Kept, error, bool)
}

func (h *head) advance() (ok bool) {
	h.Kept, h.err, ok = h.next()
	return ok
}

// HostOf returns the host that records name: their own field, or in older ones the beginning of the plugin. It returns "" if none
// of them names it.
func HostOf(records iter.Seq2[recorder.Record, error]) string {
	for r, err := range records {
		if err != nil {
			return ""
		}
		k, err := NewKept(&r)
		switch {
		case err != nil:
		case k.Host != "":
			return k.Host
		case k.Plugin != nil && k.Plugin.Host != "unknown":
			return k.Plugin.Host
		}
	}
	return ""
}
