package recorder

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	// thinName is the name of a thinned segment until it replaces the original segment.
	thinName = "thin"
	// keptShare is the inverse of the share of the size limit in which records of yielding kinds stay in any case.
	keptShare = 4
)

// thinOldest removes the records of yielding kinds from the oldest segments until the total size of all segments is within
// the limit. It returns the new total.
func (s *store) thinOldest(all []segmentFile, total int64) int64 {
	if len(s.yielding) == 0 {
		return total
	}
	for i := range all {
		if total <= s.size || sizeAfterFirst(all[i:]) < s.size/keptShare {
			return total
		}
		one := &all[i]
		if s.thinned[one.number] {
			continue
		}
		newSize, err := s.thinSegment(one)
		if err != nil {
			s.log.Warn("recorder: removing records from a segment failed, the whole segment will be removed",
				"directory", s.dir.path, "segment", segmentName(one.number), "error", err)
		}
		s.thinned[one.number] = true // even if it failed, to avoid endless retries
		total -= one.size - newSize
		one.size = newSize
	}
	return total
}

// sizeAfterFirst returns the total size of all segments except the first one.
func sizeAfterFirst(all []segmentFile) (size int64) {
	for _, one := range all[1:] {
		size += one.size
	}
	return size
}

// thinSegment removes the records of yielding kinds from a segment and returns its new size. Damaged bytes stay.
func (s *store) thinSegment(one *segmentFile) (newSize int64, err error) {
	f, err := s.dir.root.OpenFile(segmentName(one.number), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return one.size, err
	}
	b, err := readAt(f, 0, min(one.size, maxSegment))
	_ = f.Close() // the file was only read
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
	rest := append(encodeHeader(thinnedMagic, version, first), s.withoutYielding(b[headerSize:])...)
	if len(rest) == len(b) {
		return one.size, nil
	}
	if err := s.replaceSegment(one.number, rest); err != nil {
		return one.size, err
	}
	return int64(len(rest)), nil
}

// withoutYielding returns b without the frames of yielding kinds. It keeps bytes that are not part of a frame.
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

// replaceSegment replaces the content of a segment. After a kill or a power cut the segment has either the old or the new
// content.
func (s *store) replaceSegment(number uint64, content []byte) error {
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
