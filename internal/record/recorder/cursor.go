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

// cursor is a place in the segments of a directory.
type cursor struct {
	reader *Reader
	number uint64   // of the segment being read, or of the last one read; 0: none yet
	f      *os.File // nil: the segment number is done
	at     int64    // bytes of it that are done
	skip   Skip     // of this segment
	beyond int64    // bytes of it after maxSegment
}

// pass yields the records from the cursor to the last one that is whole. more is false if yield has ended it.
func (c *cursor) pass(yield func(Record, error) bool) (more bool, err error) {
	for {
		// Listed before the segment is read: a segment that has a successor is not appended to any more.
		all, err := c.list()
		if err != nil {
			return false, err
		}
		if c.f == nil {
			if !c.next(all) {
				return true, nil
			}
			if c.f == nil {
				continue
			}
		}
		final := len(all) > 0 && all[len(all)-1].number > c.number
		if !c.read(final, yield) {
			return false, nil
		}
		if !final {
			return true, nil
		}
		c.done()
	}
}

func (c *cursor) list() ([]found, error) {
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

// replaced reports whether the directory was begun again: it ends before the segment that was read last, or has another
// file with its number.
func (c *cursor) replaced(all []found) bool {
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
	return err == nil && slices.ContainsFunc(all, func(one found) bool {
		return one.number == c.number && !os.SameFile(open, one.info) && !c.isThinnedNow()
	})
}

// isThinnedNow reports whether the segment being read has been replaced by what the recorder left of it.
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
	was, err := readAt(c.f, 0, headerSize)
	if err != nil {
		return false
	}
	first, errNow := parseHeader(now)
	before, errWas := parseHeader(was)
	return errNow == nil && errWas == nil && first == before
}

// next opens the segment that follows the last one. It returns false if there is none yet. f stays nil if the segment
// has gone meanwhile, or cannot be opened, which is reported.
func (c *cursor) next(all []found) bool {
	for i, one := range all {
		if one.number <= c.number {
			continue
		}
		if i < len(all)-1 && c.reader.filter.leavesOut(one.info.ModTime()) {
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
			c.done()
			return true
		}
		c.f = f
		return true
	}
	return false
}

// read yields the records of the rest of the segment. If the segment is not final, bytes after the last sound frame
// stay for the next time: they may be half of a frame.
func (c *cursor) read(final bool, yield func(Record, error) bool) bool {
	b, err := c.rest()
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
		if c.reader.filter.match(&one) && !yield(one, nil) {
			return false
		}
	}
	return true
}

// rest returns what follows at. Before anything else it passes the header.
func (c *cursor) rest() ([]byte, error) {
	info, err := c.f.Stat()
	if err != nil {
		return nil, err
	}
	size := min(info.Size(), maxSegment)
	c.beyond = info.Size() - size
	c.at = min(c.at, size) // the writer has cut it
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
	return b, err // of a damaged header the frames are searched
}

// readAt returns the bytes of a file from at to end, or fewer if it is shorter now.
func readAt(f io.ReaderAt, at, end int64) ([]byte, error) {
	b := make([]byte, end-at)
	n, err := f.ReadAt(b, at)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:n], err
}

func (c *cursor) skipBytes(n int) {
	if n > 0 {
		c.skip.Bytes += int64(n)
		c.skip.Places++
	}
}

// finish ends the reading of the newest segment.
func (c *cursor) finish() {
	if c.f == nil {
		return
	}
	if b, err := c.rest(); err == nil && len(b) > 0 {
		c.skipBytes(len(b))
		c.skip.Err = ErrTail
	}
	c.done()
}

// done ends the reading of a segment, and reports what was skipped.
func (c *cursor) done() {
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
		_ = c.f.Close() // it was only read
		c.f = nil
	}
}
