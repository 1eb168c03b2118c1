package timeline

import (
	"errors"
	"iter"

	"rdma_events/internal/record/recorder"
)

// errStopped stops a Printer whose consumer wants no more records.
var errStopped = errors.New("no more records are wanted")

// Read returns the records of one recorder as a Printer writes them. An event and the state change that it caused are one
// record. Records are in the order of their times or, if asRecorded is set, in the order of the recording. Read skips invalid
// records and passes their errors to bad. An error is the last element.
func Read(records iter.Seq2[recorder.Record, error], asRecorded bool, bad func(error)) iter.Seq2[StoredRecord, error] {
	return func(yield func(StoredRecord, error) bool) {
		p := Printer{JSON: asRecorded, yield: func(k *StoredRecord) error {
			if !yield(*k, nil) {
				return errStopped
			}
			return nil
		}}
		for r, err := range records {
			if err != nil {
				yield(StoredRecord{}, err)
				return
			}
			k, err := NewStoredRecord(&r)
			if err != nil {
				bad(err)
				continue
			}
			if p.Add(k) != nil {
				return
			}
		}
		_ = p.Flush() // returns only the error of a consumer that has stopped
	}
}

// Merge merges the records of several hosts by their times. The records of one host keep their order, even if its clock was
// set back. For equal times the earlier stream comes first. An error is the last element. Merge holds one record of each stream
// in memory.
func Merge(streams []iter.Seq2[StoredRecord, error]) iter.Seq2[StoredRecord, error] {
	return func(yield func(StoredRecord, error) bool) {
		var heads []streamHead
		for _, stream := range streams {
			next, stop := iter.Pull2(stream)
			defer stop()
			h := streamHead{next: next}
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
			if !yield(h.StoredRecord, h.err) || h.err != nil {
				return
			}
			if !h.advance() {
				heads = append(heads[:first], heads[first+1:]...)
			}
		}
	}
}

// streamHead is the next record of a stream.
type streamHead struct {
	StoredRecord
	err  error
	next func() (StoredRecord, error, bool)
}

// advance reads the next record of the stream. It returns false at the end of the stream.
func (h *streamHead) advance() (ok bool) {
	h.StoredRecord, h.err, ok = h.next()
	return ok
}

// HostOf returns the name of the host that made the records. Each record has a field for it; in older directories only the
// record of the plugin's start has the name. HostOf returns "" if no record has it.
func HostOf(records iter.Seq2[recorder.Record, error]) string {
	for r, err := range records {
		if err != nil {
			return ""
		}
		k, err := NewStoredRecord(&r)
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
