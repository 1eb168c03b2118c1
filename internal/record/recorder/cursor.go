package recorder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// cursor is a position in the segments of a directory.
type cursor struct {
	reader *Reader
	number uint64   // of the segment that is being read or was read last; 0: none yet
	f      *os.File // nil: the segment has been read completely
	at     int64    // bytes of the segment that have been read
	skip   Skip     // of this segment
	beyond int64    // bytes of the segment after maxSegment
}

// readAvailable yields the records from the cursor to the last whole record. more is false if yield returned false.
func (c *cursor) readAvailable(yield func(Record, error) bool) (more bool, err error) {
	for {
		// List the segments before reading one: the recorder no longer appends to a segment that has a successor.
		all, err := c.listSegments()
		if err != nil {
			return false, err
		}
		if c.f == nil {
			if !c.openNext(all) {
				return true, nil
			}
			if c.f == nil {
				continue
			}
		}
		final := len(all) > 0 && all[len(all)-1].number > c.number
		if !c.readSegment(final, yield) {
			return false, nil
		}
		if !final {
			return true, nil
		}
		c.finishSegment()
	}
}

// listSegments lists the segments. If the directory was replaced, it reports that and moves the cursor to the start.
func (c *cursor) listSegments() ([]segmentFile, error) {
	entries, err := os.ReadDir(c.reader.dir)
	if err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	all := segmentsOf(entries)
	if c.replaced(all) {
		c.close()
		c.reader.skipped(Skip{Segment: segmentName(all[0].number), Err: ErrReplaced})
		c.number, c.skip = 0, Skip{}
	}
	return all, nil
}

// replaced reports whether the directory was removed and created again. It then ends before the segment that was read last,
// or has another file with its number.
func (c *cursor) replaced(all []segmentFile) bool {
	if len(all) == 0 {
		return false
	}
	if all[len(all)-1].number < c.number {
		return true
	}
	if c.f == nil {
		return false
	}
	open, err := c.f.Stat()
	return err == nil && slices.ContainsFunc(all, func(one segmentFile) bool {
		return one.number == c.number && !os.SameFile(open, one.info) && !c.isThinnedNow()
	})
}

// isThinnedNow reports whether the recorder has replaced the segment that is being read by a thinned one.
func (c *cursor) isThinnedNow() bool {
	f, err := os.OpenFile(filepath.Join(c.reader.dir, segmentName(c.number)), os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // it was only read
	now, err := readAt(f, 0, headerSize)
	if err != nil || !isThinned(now) {
		return false
	}
	before, err := readAt(c.f, 0, headerSize)
	if err != nil {
		return false
	}
	firstNow, errNow := parseHeader(now)
	firstBefore, errBefore := parseHeader(before)
	return errNow == nil && errBefore == nil && firstNow == firstBefore
}

// openNext opens the segment after the last one. It returns false if there is none yet. f stays nil if the segment was
// removed in the meantime, or if it cannot be opened, which openNext reports.
func (c *cursor) openNext(all []segmentFile) bool {
	for i, one := range all {
		if one.number <= c.number {
			continue
		}
		if i < len(all)-1 && c.reader.filter.excludesFile(one.info.ModTime()) {
			c.number = one.number
			continue
		}
		name := segmentName(one.number)
		f, err := os.OpenFile(filepath.Join(c.reader.dir, name), os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return true
		}
		if c.number != 0 && one.number != c.number+1 {
			c.reader.skipped(Skip{Segment: name, Err: ErrOverwritten})
		}
		c.number, c.at, c.skip, c.beyond = one.number, 0, Skip{Segment: name}, 0
		if err != nil {
			c.skip.Err = err
			c.finishSegment()
			return true
		}
		c.f = f
		return true
	}
	return false
}

// readSegment yields the records in the rest of the segment. final tells that the segment is complete. Otherwise the bytes
// after the last valid frame stay for the next call, because they may be an incomplete frame.
func (c *cursor) readSegment(final bool, yield func(Record, error) bool) bool {
	b, err := c.readRest()
	if err != nil {
		c.skip.Err = err
	}
	var f finder
	for len(b) > 0 {
		if ended := c.reader.filter.Ended; ended != nil && ended() {
			return false
		}
		content, at := f.find(b)
		if content == nil && !final {
			return true
		}
		c.skipBytes(at)
		end := at + prefixSize + len(content)
		if content == nil {
			end = at
		}
		b = b[end:]
		c.at += int64(end)
		if content == nil {
			continue
		}
		one, err := parseRecord(content)
		if err != nil {
			c.skipBytes(len(content))
			continue
		}
		if c.reader.filter.matches(&one) && !yield(one, nil) {
			return false
		}
	}
	return true
}

// readRest returns the bytes of the segment after at. At the start of a segment it checks and skips the header.
func (c *cursor) readRest() ([]byte, error) {
	info, err := c.f.Stat()
	if err != nil {
		return nil, err
	}
	size := min(info.Size(), maxSegment)
	c.beyond = info.Size() - size
	c.at = min(c.at, size) // the writer may have cut the segment
	b, err := readAt(c.f, c.at, size)
	if c.at > 0 {
		return b, err
	}
	_, damage := parseHeader(b)
	var newer newerError
	switch {
	case errors.As(damage, &newer):
		c.skip.Err = newer
		c.at, c.beyond = size, 0
		return nil, nil
	case damage == nil:
		c.at = headerSize
		return b[headerSize:], err
	}
	return b, err // after a damaged header, the caller searches for frames
}

// readAt returns the bytes of a file from at to end, or fewer if the file is shorter.
func readAt(f io.ReaderAt, at, end int64) ([]byte, error) {
	b := make([]byte, end-at)
	n, err := f.ReadAt(b, at)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:n], err
}

// skipBytes counts n skipped bytes in one place.
func (c *cursor) skipBytes(n int) {
	if n > 0 {
		c.skip.Bytes += int64(n)
		c.skip.Places++
	}
}

// finishNewest ends the reading of the newest segment, and counts its incomplete end as skipped. Records that were appended after the
// last one was yielded are no damage.
func (c *cursor) finishNewest() {
	if c.f == nil {
		return
	}
	if b, err := c.readRest(); err == nil && len(b) > 0 && frameAt(b) == nil {
		c.skipBytes(len(b))
		c.skip.Err = ErrTail
	}
	c.finishSegment()
}

// finishSegment ends the reading of a segment, and reports what was skipped.
func (c *cursor) finishSegment() {
	c.close()
	if c.beyond > 0 {
		c.skip.Bytes += c.beyond
		c.skip.Places++
		c.skip.Err = ErrTooLong
	}
	if c.skip.Bytes > 0 || c.skip.Err != nil {
		c.reader.skipped(c.skip)
	}
}

func (c *cursor) close() {
	if c.f != nil {
		_ = c.f.Close() // the file was only read
		c.f = nil
	}
}
