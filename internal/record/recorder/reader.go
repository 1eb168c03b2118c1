package recorder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"slices"
	"time"
)

// Filter selects records. The zero Filter selects all records.
type Filter struct {
	// Since excludes records with an earlier wall clock. The zero Time excludes none.
	Since time.Time
	// Device excludes records of other devices. Records without a device concern the whole host and stay, so that a filter
	// does not hide lost records. "" excludes none.
	Device string
	// Kinds excludes all other kinds, including internal kinds of the recorder. nil excludes none.
	Kinds []string
	// Ended is called before each record, including excluded records, and ends the reading if it returns true. nil: read all.
	Ended func() bool
}

// sinceMargin is the minimum time by which a file has to be older than Since before the reader skips the whole file. A record
// is written within a second of its time, but the clock of a file server may differ.
const sinceMargin = time.Hour

// excludesFile reports whether all records of a file that was last written at the given time are older than Since.
func (f *Filter) excludesFile(written time.Time) bool {
	return !f.Since.IsZero() && written.Before(f.Since.Add(-sinceMargin))
}

func (f *Filter) matches(r *Record) bool {
	return !r.Time.Before(f.Since) && (f.Device == "" || r.Device == "" || r.Device == f.Device) &&
		(f.Kinds == nil || slices.Contains(f.Kinds, r.Kind))
}

// Skip describes what could not be read of a segment, or that segments were removed before they were read.
type Skip struct {
	// Segment is the name of the file.
	Segment string
	// Bytes is the number of bytes of the segment that were skipped, in Places places.
	Bytes  int64
	Places int
	// Err is the reason why the segment or its rest was skipped; nil: the skipped bytes are damaged.
	Err error
}

// String returns the Skip as one line.
func (s Skip) String() string {
	switch {
	case s.Err == nil:
		return fmt.Sprintf("%s: %d bytes skipped in %d places: they are damaged", s.Segment, s.Bytes, s.Places)
	case s.Bytes == 0:
		return fmt.Sprintf("%s: %v", s.Segment, s.Err)
	}
	return fmt.Sprintf("%s: %d bytes skipped in %d places: %v", s.Segment, s.Bytes, s.Places, s.Err)
}

var (
	// ErrOverwritten is the Err of a Skip for records that were removed to make space before they were read.
	ErrOverwritten = errors.New("earlier segments were removed before they were read")
	// ErrReplaced is the Err of a Skip if the directory was removed and created again while it was read.
	ErrReplaced = errors.New("the directory was created again")
	// ErrTail is the Err of a Skip for the end of the newest segment. Either the host or the process stopped during a
	// write, or the record is just being written.
	ErrTail = errors.New("no whole record")
	// ErrTooLong is the Err of a Skip for a segment that is longer than any recorder's. Its end is not read.
	ErrTooLong = errors.New("the segment is longer than a recorder writes")
)

// Reader reads the directory of a recorder. It takes no lock and changes nothing. While it reads, it holds one segment of at
// most 64 MiB in memory. Its methods may be called concurrently. Each call reads from the oldest record on.
type Reader struct {
	dir     string
	filter  Filter
	skipped func(Skip)
}

// NewReader returns a Reader for the records that f selects. The Reader calls skipped between two records, once for each
// segment of which something cannot be read; skipped may be nil. The error wraps ErrNotRecorder if dir is not a recorder's
// directory, and fs.ErrNotExist if it does not exist.
func NewReader(dir string, f Filter, skipped func(Skip)) (*Reader, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	if len(segmentsOf(entries)) == 0 && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == lockName }) {
		return nil, fmt.Errorf("read records of %s: %w: it has no file %s", dir, ErrNotRecorder, segmentName(1))
	}
	if skipped == nil {
		skipped = func(Skip) {}
	}
	return &Reader{dir, f, skipped}, nil
}

// Records returns the existing records, ordered by their sequence. If the directory cannot be read, the error is the last
// element.
func (r *Reader) Records() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		c := cursor{reader: r}
		defer c.close()
		more, err := c.readAvailable(yield)
		if err != nil {
			yield(Record{}, err)
		} else if more {
			c.finishNewest()
		}
	}
}

// Follow returns the existing records, and then each new record until ctx ends. It looks for new records every interval. It
// keeps up if it reads one segment (1/16 of the directory) in the time in which the recorder writes 14. If records were
// removed before it read them, it reports ErrOverwritten. An error is the last element; the end of ctx is not an error.
func (r *Reader) Follow(ctx context.Context, interval time.Duration) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		c := cursor{reader: r}
		defer c.close()
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for ctx.Err() == nil {
			more, err := c.readAvailable(func(one Record, err error) bool { return ctx.Err() == nil && yield(one, err) })
			if err != nil {
				yield(Record{}, err)
				return
			}
			if !more {
				return
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}
}
