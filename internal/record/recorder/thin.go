package recorder

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	// thinName is a segment without the records that yielded, until it replaces the whole one.
	thinName = "thin"
	// kept is the part of the size in which records that yield are kept in any case: the newest quarter.
	kept = 4
)

// thinOldest removes the records that yield from the oldest segments until total is not above the size. It returns what
// total is then.
func (s *store) thinOldest(all []found, total int64) int64 {
	if len(s.yielding) == 0 {
		return total
	}
	for i := range all {
		if total <= s.size || newerThan(all[i:]) < s.size/kept {
			return total
		}
		one := &all[i]
		if s.pure[one.number] {
			continue
		}
		left, err := s.thin(one)
		if err != nil {
			s.log.Warn("recorder cannot make a segment smaller, and will remove it whole",
				"directory", s.dir.path, "segment", segmentName(one.number), "error", err)
		}
		s.pure[one.number] = true // also one that cannot be read: it is not tried again and again
		total -= one.size - left
		one.size = left
	}
	return total
}

// newerThan returns how many bytes follow the first segment.
func newerThan(all []found) (size int64) {
	for _, one := range all[1:] {
		size += one.size
	}
	return size
}

// thin replaces a segment by one without the records that yield, and returns how long it is then. What is damaged stays.
func (s *store) thin(one *found) (left int64, err error) {
	f, err := s.dir.root.OpenFile(segmentName(one.number), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return one.size, err
	}
	b, err := readAt(f, 0, min(one.size, maxSegment))
	_ = f.Close() // it was only read
	if err != nil {
		return one.size, err
	}
	first, damage := parseHeader(b)
	if damage != nil {
		return one.size, damage
	}
	if isThinned(b) {
		return one.size, nil
	}
	rest := append(header(thinned, version, first), s.withoutYielding(b[headerSize:])...)
	if len(rest) == len(b) {
		return one.size, nil
	}
	if err := s.replace(one.number, rest); err != nil {
		return one.size, err
	}
	return int64(len(rest)), nil
}

// withoutYielding returns the frames of b that do not yield, and what is no frame.
func (s *store) withoutYielding(b []byte) (rest []byte) {
	var f finder
	for len(b) > 0 {
		content, at := f.find(b)
		end := at
		if content != nil {
			end += prefixSize + len(content)
		}
		if content != nil && slices.Contains(s.yielding, kindOf(content)) {
			rest = append(rest, b[:at]...)
		} else {
			rest = append(rest, b[:end]...)
		}
		b = b[end:]
	}
	return rest
}

// replace gives a segment another content. After a kill or a power cut it has the one or the other.
func (s *store) replace(number uint64, content []byte) error {
	f, err := s.dir.root.OpenFile(thinName, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("make segment: %w", err)
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = s.dir.root.Rename(thinName, segmentName(number))
	}
	if err != nil {
		_ = s.dir.root.Remove(thinName)
		return fmt.Errorf("write segment: %w", err)
	}
	return s.dir.sync()
}
