package aggregate

import (
	"slices"
	"time"
)

// bounds holds the upper bounds of a Histogram in 1-2-5 steps. They are fixed, so that
// a database can add up the histograms of all hosts.
var bounds = [...]time.Duration{
	5 * time.Microsecond, 10 * time.Microsecond, 20 * time.Microsecond, 50 * time.Microsecond,
	100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	1 * time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
}

// Bounds returns the upper bounds of a Histogram, each inclusive, without the last bound, +Inf.
func Bounds() []time.Duration { return slices.Clone(bounds[:]) }

// Histogram counts values between fixed bounds. Its counts are never reset. The zero
// Histogram is empty.
type Histogram struct {
	counts [len(bounds) + 1]uint64
	sum    int64
}

// Add counts the value v, in ns.
func (h *Histogram) Add(v int64) {
	i, _ := slices.BinarySearch(bounds[:], time.Duration(v))
	h.counts[i]++
	h.sum += v
}

// Sum returns the sum of all values, in ns.
func (h *Histogram) Sum() int64 { return h.sum }

// Cumulative returns, for each bound and finally for +Inf, the number of values that are
// less than or equal to it.
func (h *Histogram) Cumulative() []uint64 {
	sums := make([]uint64, len(h.counts))
	var sum uint64
	for i, n := range h.counts {
		sum += n
		sums[i] = sum
	}
	return sums
}
