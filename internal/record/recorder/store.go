package recorder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sort"
	"syscall"

	"golang.org/x/sys/unix"
)

// segmentsPerSize is how many segments a full directory has.
const segmentsPerSize = 16

// file is the newest segment, opened for appending.
type file interface {
	io.WriteCloser
	Sync() error
	Truncate(size int64) error
	Stat() (fs.FileInfo, error)
}

var errRemoved = errors.New("the file was removed")

// store is the segments of a directory, which open locks. Its methods are called by one goroutine. After an error it is
// closed, and opened again.
type store struct {
	dir  *directory
	size int64 // limit of all segments together
	wrap func(file) file
	log  *slog.Logger

	yielding []string
	pure     map[uint64]bool // segments without records that yield

	f      file // nil: not open
	number uint64
	at     int64  // where the whole frames of f end
	alone  uint64 // the last segment that was left alone
}

func newStore(c Config, wrap func(file) file) *store {
	return &store{
		dir: &directory{path: c.Directory}, size: int64(c.SizeMiB) << 20, wrap: wrap, log: c.Log,
		yielding: c.Yielding, pure: make(map[uint64]bool),
	}
}

func (s *store) segmentSize() int64 { return s.size / segmentsPerSize }

// space returns how many bytes of frames the newest segment has space for.
func (s *store) space() int64 { return s.segmentSize() - s.at }

// past is what a directory has of earlier.
type past struct {
	last     Record // the zero Record: there is none
	sequence uint64 // no earlier record has a higher one
	cut      int64  // bytes
}

// open makes the newest segment ready for appending, or makes a new one. least is a sequence that was given already.
func (s *store) open(least uint64) (past, error) {
	if err := s.dir.renew(); err != nil {
		return past{}, err
	}
	_ = s.dir.root.Remove(thinName) // of a run that was killed
	all, err := s.dir.segments()
	if err != nil {
		return past{}, err
	}
	var p past
	if len(all) > 0 {
		newest := all[len(all)-1]
		if p, err = s.adopt(newest); err != nil {
			return past{}, err
		}
		for i := len(all) - 2; i >= 0 && p.last.Sequence == 0; i-- {
			p.last = s.readLast(all[i].number, all[i].size)
		}
		older, reserve := all, s.segmentSize()
		if s.f != nil {
			older, reserve = all[:len(all)-1], max(reserve, newest.size)
		}
		if err := s.prune(older, reserve); err != nil {
			return past{}, err
		}
		s.number = max(s.number, newest.number)
	}
	p.sequence = max(p.sequence, p.last.Sequence, least)
	switch {
	case s.f == nil:
		return p, s.create(p.sequence + 1)
	case s.at == 0:
		return p, s.begin(p.sequence + 1)
	}
	return p, nil
}

// adopt opens the newest segment and cuts it at its first bad frame. It leaves the segment alone, and s.f nil, if a
// newer version wrote it, if it cannot be read, or if its header is damaged and frames are not.
func (s *store) adopt(newest found) (past, error) {
	name := segmentName(newest.number)
	f, err := s.dir.root.OpenFile(name, os.O_RDWR|os.O_APPEND|unix.O_NONBLOCK, 0)
	if err != nil {
		return past{}, fmt.Errorf("open segment: %w", err)
	}
	b, err := readAt(f, 0, min(newest.size, maxSegment))
	first, damage := parseHeader(b)
	var p past
	if err != nil || damage != nil {
		p.last = last(b)
	}
	var newer newerError
	switch {
	case err != nil || errors.As(damage, &newer):
		// What it holds is not known: its frames have a prefix at least.
		p.sequence = max(first, p.last.Sequence) + uint64(newest.size)/prefixSize
		s.leave(newest.number, errors.Join(err, damage))
		return p, f.Close()
	case damage != nil && p.last.Sequence != 0:
		s.leave(newest.number, damage)
		return p, f.Close()
	}
	var good int
	if damage == nil {
		p.sequence, good = first-1, soundUntil(b)
		p.last = last(b[:good])
	}
	if p.cut = newest.size - int64(good); p.cut > 0 {
		if err := f.Truncate(int64(good)); err != nil {
			return past{}, errors.Join(fmt.Errorf("cut segment: %w", err), f.Close())
		}
	}
	s.f, s.number, s.at = s.wrap(f), newest.number, int64(good)
	return p, nil
}

// leave writes one line for each segment.
func (s *store) leave(number uint64, why error) {
	if s.alone != number {
		s.log.Warn("recorder leaves a segment alone and begins a new one", "directory", s.dir.path, "segment", segmentName(number), "error", why)
	}
	s.alone = number
}

// readLast reads the last record of an older segment. One that cannot be read has none.
func (s *store) readLast(number uint64, size int64) Record {
	f, err := s.dir.root.OpenFile(segmentName(number), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return Record{}
	}
	defer func() { _ = f.Close() }() // it was only read
	b, _ := readAt(f, 0, min(size, maxSegment))
	return last(b)
}

// prune makes space until all and reserve fit into the size: it thins the oldest, and if that is not enough, it removes
// the oldest.
func (s *store) prune(all []found, reserve int64) error {
	total := reserve
	for _, one := range all {
		total += one.size
	}
	total = s.thinOldest(all, total)
	for _, one := range all {
		if total <= s.size {
			return nil
		}
		if err := s.dir.root.Remove(segmentName(one.number)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove oldest segment: %w", err)
		}
		delete(s.pure, one.number)
		total -= one.size
	}
	return nil
}

// rotate begins the next segment, after sync, and removes the oldest.
func (s *store) rotate(first uint64) error {
	s.closeSegment()
	all, err := s.dir.segments()
	if err != nil {
		return err
	}
	if err := s.prune(all, s.segmentSize()); err != nil {
		return err
	}
	return s.create(first)
}

func (s *store) create(first uint64) error {
	f, err := s.dir.root.OpenFile(segmentName(s.number+1), os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("make segment: %w", err)
	}
	s.f, s.number = s.wrap(f), s.number+1
	return s.begin(first)
}

// begin writes the header of an empty segment. It is durable before the first frame, so that a power cut leaves no
// frames without it.
func (s *store) begin(first uint64) error {
	s.at = 0
	if _, err := s.f.Write(newHeader(version, first)); err != nil {
		return fmt.Errorf("write header of segment: %w", err)
	}
	s.at = headerSize
	if err := errors.Join(s.f.Sync(), s.dir.sync()); err != nil {
		return fmt.Errorf("sync new segment: %w", err)
	}
	return nil
}

// append writes frames that end at ends. It returns how many of them were written whole, also with an error.
func (s *store) append(frames []byte, ends []int) (whole int, err error) {
	n, err := s.f.Write(frames)
	whole = sort.SearchInts(ends, n+1)
	if whole > 0 {
		s.at += int64(ends[whole-1])
	}
	if err != nil {
		return whole, fmt.Errorf("write segment: %w", err)
	}
	return whole, nil
}

// sync makes what was written durable. It fails if that is in a file without a name.
func (s *store) sync() error {
	if err := s.f.Sync(); err != nil {
		return fmt.Errorf("sync segment: %w", err)
	}
	info, err := s.f.Stat()
	if err != nil {
		return fmt.Errorf("sync segment: %w", err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink == 0 {
		return fmt.Errorf("sync segment %s: %w", segmentName(s.number), errRemoved)
	}
	return nil
}

// cut removes what follows the last whole frame, and closes the segment. What cannot be cut is cut by open.
func (s *store) cut() {
	if s.f != nil {
		_ = s.f.Truncate(s.at)
		s.closeSegment()
	}
}

// close releases the directory.
func (s *store) close() {
	s.closeSegment()
	s.dir.close()
}

func (s *store) closeSegment() {
	if s.f != nil {
		_ = s.f.Close() // it was synced, or its error is known
		s.f = nil
	}
}
