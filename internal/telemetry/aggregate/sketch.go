package aggregate

import "math/bits"

// subBits sets the resolution of a sketch: each octave has 64 buckets. The middle of a
// bucket therefore differs by less than 1/128 from any value in the bucket.
const (
	subBits = 6
	subs    = 1 << subBits
	octaves = 64 - subBits
)

// sketch is a log-linear histogram of values from 0 to the greatest int64. The first
// value of an octave allocates the octave's 256 bytes. Latencies span few octaves, so a
// slice of a window takes about 1 KB. A dense histogram of this resolution takes 15 KB.
type sketch struct {
	count   int64
	octaves [octaves]*[subs]uint32 // counts of the buckets; nil: no value
}

func (s *sketch) add(v int64) {
	o, sub := bucketOf(uint64(max(0, v)))
	s.octave(o)[sub]++
	s.count++
}

// octave returns the buckets of octave o, which it allocates if necessary.
func (s *sketch) octave(o int) *[subs]uint32 {
	if s.octaves[o] == nil {
		s.octaves[o] = new([subs]uint32)
	}
	return s.octaves[o]
}

func (s *sketch) merge(from *sketch) {
	for o, buckets := range from.octaves {
		if buckets == nil {
			continue
		}
		to := s.octave(o)
		for i, n := range buckets {
			to[i] += n
		}
	}
	s.count += from.count
}

// clear removes all values and keeps the memory.
func (s *sketch) clear() {
	for _, buckets := range s.octaves {
		if buckets != nil {
			clear(buckets[:])
		}
	}
	s.count = 0
}

// valueAt returns the value at index n of the sorted values, to within 1/128.
func (s *sketch) valueAt(n int64) int64 {
	for o, buckets := range s.octaves {
		if buckets == nil {
			continue
		}
		for i, c := range buckets {
			if n -= int64(c); n < 0 {
				return bucketMiddle(o, i)
			}
		}
	}
	return 0
}

// bucketOf returns the bucket that counts v. Octave 0 has a bucket for each value from 0
// to 63. Each octave o above it covers the values from 64<<(o-1) up to twice that.
func bucketOf(v uint64) (octave, sub int) {
	if v < subs {
		return 0, int(v)
	}
	o := bits.Len64(v) - subBits
	return o, int(v>>(o-1)) & (subs - 1)
}

func bucketMiddle(octave, sub int) int64 {
	if octave == 0 {
		return int64(sub)
	}
	width := int64(1) << (octave - 1)
	return int64(subs+sub)*width + width/2
}
