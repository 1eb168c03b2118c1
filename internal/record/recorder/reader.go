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

// Filter selects records. The zero Filter selects all.
type Filter struct {
	// Since leaves out records whose wall clock is before it. The zero Time leaves out none.
	Since time.Time
	// Device leaves out records of other devices. Those without a device stay, since they concern the whole host: a
	// filter must not hide that records were lost. "" leaves out none.
	Device string
	// Kinds leaves out all other kinds, also the recorder's own. nil leaves out none.
	Kinds []string
	// Ended is asked before each record whether to end, also before those that are left out. nil: read all.
	Ended func() bool
}

// sinceMargin is how much older than Since a file is that is not read at all. A record is written within a second of its time, and
// the clock of a file server may differ.
const sinceMargin = time.Hour

// leavesOut reports whether all records of a file that was last written at a time are before Since.
func (f *Filter) leavesOut(written time.Time) bool {
	return !f.Since.IsZero() && written.Before(f.Since.Add(-sinceMargin))
}

func (f *Filter) match(r *Record) bool {
	return !r.Time.Before(f.Since) && (f.Device == "" || r.Device == "" || r.Device == f.Device) &&
		(f.Kinds == nil || slices.Contains(f.Kinds, r.Kind))
}

// Skip is what could not be read of one segment, or of several that are gone.
type Skip struct {
	// Segment is the name of a file.
	Segment string
	// Bytes is how much of the segment was skipped, in Places places.
	Bytes  int64
	Places int
	// Err is why the rest or all of the segment was skipped; nil: the bytes are damaged.
	Err error
}

// String returns one line.
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
	// ErrOverwritten is the Err of a Skip for records that were removed for newer ones before they were read.
	ErrOverwritten = errors.New("segments before it were removed before they were read")
	// ErrReplaced is the Err of a Skip when the directory was removed and begun again while it was followed.
	ErrReplaced = errors.New("the directory was begun again")
	// ErrTail is the Err of a Skip for the end of the newest segment. Either the host or the process ended within a
	// write, or the record is being written just now.
	ErrTail = errors.New("no whole record")
	// ErrTooLong is the Err of a Skip for a segment that is longer than a recorder makes them. Its end is not read.
	ErrTooLong = errors.New("it is longer than any recorder's segment")
)

// Reader reads a recorder's directory. It takes no lock, and changes nothing. It keeps one segment, 64 MiB at
// most, in memory while it reads. Its methods may be called concurrently, and each call reads from the oldest record on.
type Reader struct {
	dir     string
	filter  Filter
	skipped func(Skip)
}

// NewReader returns a Reader of the records that a filter selects. skipped is called, between two records, with what
// cannot be read: once for each segment. It may be nil. The error wraps ErrNotRecorder if dir is another directory, and fs.ErrNotExist
// if there is none.
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

// Records returns the records that are there now, ordered by their sequence. An error is the last element: the
// directory cannot be read any more.
func (r *Reader) Records() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		c := cursor{reader: r}
		defer c.close()
		more, err := c.pass(yield)
		if err != nil {
			yield(Record{}, err)
		} else if more {
			c.finish()
		}
	}
}

// Follow returns the records that are there, and then each new one until ctx ends. It looks for new ones every
// interval. It is fast enough if it reads a segment, 1/16 of the directory, in the time in which 14 are written;
// records that were removed before that are reported with ErrOverwritten. An error is the last element; the end of ctx
// is none.
func (r *Reader) Follow(ctx context.Context, interval time.Duration) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		c := cursor{reader: r}
		defer c.close()
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for ctx.Err() == nil {
			more, err := c.pass(func(one Record, err error) bool { return ctx.Err() == nil && yield(one, err) })
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
