package aggregate

import "math/bits"

// subBits sets the resolution of a sketch: each octave has 64 buckets, so that
// the middle of a bucket is less than 1/128 away from any value in it.
const (
	subBits = 6
	subs    = 1 << subBits
	octaves = 64 - subBits
)

// sketch is a log-linear histogram of values from 0 to the greatest int64.
// The 256 bytes of an octave are allocated with its first value. Latencies span few
// octaves. So a slice of a window has about a kilobyte, where a dense histogram of this
// resolution has fifteen.
type sketch struct {
	count  int64
	octave [octaves]*[subs]uint32
}

func (s *sketch) add(v int64) {
	o, sub := bucket(uint64(max(0, v)))
	s.page(o)[sub]++
	s.count++
}

func (s *sketch) page(o int) *[subs]uint32 {
	if s.octave[o] == nil {
		s.octave[o] = new([subs]uint32)
	}
	return s.octave[o]
}

func (s *sketch) merge(from *sketch) {
	for o, page := range from.octave {
		if page == nil {
			continue
		}
		to := s.page(o)
		for i, n := range page {
			to[i] += n
		}
	}
	s.count += from.count
}

// clear empties s and keeps its memory.
func (s *sketch) clear() {
	for _, page := range s.octave {
		if page != nil {
			clear(page[:])
		}
	}
	s.count = 0
}

// rank returns approximately the value at place n, counted from 0, in sorted order.
func (s *sketch) rank(n int64) int64 {
	for o, page := range s.octave {
		if page == nil {
			continue
		}
		for i, c := range page {
			if n -= int64(c); n < 0 {
				return middle(o, i)
			}
		}
	}
	return 0
}

// bucket returns where v is counted: octave 0 holds 0 to 63 exactly, octave o
// above it 64<<(o-1) up to twice that.
func bucket(v uint64) (octave, sub int) {
	if v < subs {
		return 0, int(v)
	}
	o := bits.Len64(v) - subBits
	return o, int(v>>(o-1)) & (subs - 1)
}

func middle(octave, sub int) int64 {
	if octave == 0 {
		return int64(sub)
	}
	width := int64(1) << (octave - 1)
	return int64(subs+sub)*width + width/2
}
