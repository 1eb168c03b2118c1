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

// segmentsPerSize is the number of segments in a full directory.
const segmentsPerSize = 16

// file is the newest segment, open for appending.
type file interface {
	io.WriteCloser
	Sync() error
	Truncate(size int64) error
	Stat() (fs.FileInfo, error)
}

var errRemoved = errors.New("the file was removed")

// store manages the segments of a directory. open locks the directory. After an error of any method the caller has to call
// truncateAndClose and then open. A store is not safe for concurrent use.
type store struct {
	dir  *directory
	size int64 // limit of all segments together
	wrap func(file) file
	log  *slog.Logger

	yielding []string
	thinned  map[uint64]bool // segments without records of yielding kinds

	f         file // nil: not open
	number    uint64
	at        int64  // offset of the end of the last whole frame in f
	leftAlone uint64 // number of the last segment that could not be used
}

func newStore(c Config, wrap func(file) file) *store {
	return &store{
		dir: &directory{path: c.Directory}, size: int64(c.SizeMiB) << 20, wrap: wrap, log: c.Log,
		yielding: c.Yielding, thinned: make(map[uint64]bool),
	}
}

func (s *store) segmentSize() int64 { return s.size / segmentsPerSize }

// space returns the number of bytes of frames for which the newest segment has space.
func (s *store) space() int64 { return s.segmentSize() - s.at }

// priorState describes what earlier runs left in a directory.
type priorState struct {
	last     Record // the last record; the zero Record: there is none
	sequence uint64 // upper limit for the sequences of earlier records
	cut      int64  // bytes that were cut from the newest segment
}

// open prepares the newest segment for appending, or creates a new one. least is the highest sequence that this run has
// already used.
func (s *store) open(least uint64) (priorState, error) {
	if err := s.dir.openOrReopen(); err != nil {
		return priorState{}, err
	}
	_ = s.dir.root.Remove(thinName) // left over if a run was killed
	all, err := s.dir.segments()
	if err != nil {
		return priorState{}, err
	}
	var p priorState
	if len(all) > 0 {
		newest := all[len(all)-1]
		if p, err = s.openNewest(newest); err != nil {
			return priorState{}, err
		}
		for i := len(all) - 2; i >= 0 && p.last.Sequence == 0; i-- {
			p.last = s.readLast(all[i].number, all[i].size)
		}
		older, reserve := all, s.segmentSize()
		if s.f != nil {
			older, reserve = all[:len(all)-1], max(reserve, newest.size)
		}
		if err := s.prune(older, reserve); err != nil {
			return priorState{}, err
		}
		s.number = max(s.number, newest.number)
	}
	p.sequence = max(p.sequence, p.last.Sequence, least)
	switch {
	case s.f == nil:
		return p, s.create(p.sequence + 1)
	case s.at == 0:
		return p, s.writeHeader(p.sequence + 1)
	}
	return p, nil
}

// openNewest opens the newest segment and cuts it at its first invalid frame. It leaves the segment unchanged, and s.f nil,
// if a newer version wrote it, if it cannot be read, or if its header is damaged but some frames are valid.
func (s *store) openNewest(newest segmentFile) (priorState, error) {
	name := segmentName(newest.number)
	f, err := s.dir.root.OpenFile(name, os.O_RDWR|os.O_APPEND|unix.O_NONBLOCK, 0)
	if err != nil {
		return priorState{}, fmt.Errorf("open segment: %w", err)
	}
	b, err := readAt(f, 0, min(newest.size, maxSegment))
	first, damage := parseHeader(b)
	var p priorState
	if err != nil || damage != nil {
		p.last = lastRecord(b)
	}
	var newer newerError
	switch {
	case err != nil || errors.As(damage, &newer):
		// Its content is not known. Each frame has at least a prefix, which limits the number of records.
		p.sequence = max(first, p.last.Sequence) + uint64(newest.size)/prefixSize
		s.logLeftAlone(newest.number, errors.Join(err, damage))
		return p, f.Close()
	case damage != nil && p.last.Sequence != 0:
		s.logLeftAlone(newest.number, damage)
		return p, f.Close()
	}
	var good int
	if damage == nil {
		p.sequence, good = first-1, validLength(b)
		p.last = lastRecord(b[:good])
	}
	if p.cut = newest.size - int64(good); p.cut > 0 {
		if err := f.Truncate(int64(good)); err != nil {
			return priorState{}, errors.Join(fmt.Errorf("cut segment: %w", err), f.Close())
		}
	}
	s.f, s.number, s.at = s.wrap(f), newest.number, int64(good)
	return p, nil
}

// logLeftAlone logs, once for each segment, that the recorder does not use it.
func (s *store) logLeftAlone(number uint64, why error) {
	if s.leftAlone != number {
		s.log.Warn("recorder: segment left unchanged, starting a new one", "directory", s.dir.path, "segment", segmentName(number), "error", why)
	}
	s.leftAlone = number
}

// readLast returns the last record of an older segment, or the zero Record if the segment cannot be read.
func (s *store) readLast(number uint64, size int64) Record {
	f, err := s.dir.root.OpenFile(segmentName(number), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return Record{}
	}
	defer func() { _ = f.Close() }() // it was only read
	b, _ := readAt(f, 0, min(size, maxSegment))
	return lastRecord(b)
}

// prune frees space until the segments in all plus reserve bytes fit into the size limit. It first thins the oldest segments
// and then, if that is not enough, removes them.
func (s *store) prune(all []segmentFile, reserve int64) error {
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
		delete(s.thinned, one.number)
		total -= one.size
	}
	return nil
}

// rotate starts the next segment and removes the oldest segments if necessary. The caller has to call sync before.
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
	return s.writeHeader(first)
}

// writeHeader writes the header of an empty segment. It syncs the header before any frame is written, so that a power cut
// leaves no frames without a header.
func (s *store) writeHeader(first uint64) error {
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

// append writes frames; ends are the offsets of their ends. It returns the number of frames that were written whole, even if
// it also returns an error.
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

// sync makes the written frames durable. It returns errRemoved if the file of the segment was removed.
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

// truncateAndClose removes the bytes after the last whole frame and closes the segment. If that fails, open cuts them later.
func (s *store) truncateAndClose() {
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
		_ = s.f.Close() // the segment was synced, or its error is already known
		s.f = nil
	}
}
