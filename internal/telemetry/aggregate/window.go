package aggregate

import (
	"math"
	"slices"
	"time"
)

const (
	slicesPerWindow = 30
	exactPerSlice   = 128 // samples that a slice stores exactly, before it uses a sketch
)

// Percentiles holds the percentiles of a window, by the nearest-rank method. They are
// exact while each slice of the window has at most 128 samples, otherwise within 1 %.
type Percentiles struct {
	Count         int64
	P50, P90, P99 int64
}

// Window holds the samples of the most recent span of time. It drops old samples in time
// slices of 1/30 of the span, so it covers between 29/30 of the span and all of it. Its
// memory is bounded for any number of samples: at most 1 KB per slice plus 256 bytes for
// each octave that the samples span.
type Window struct {
	sliceLength int64 // ns
	slices      [slicesPerWindow]timeSlice
}

type timeSlice struct {
	number int64 // time divided by the window's slice length, plus 1; 0: never used
	max    int64
	exact  []int64
	sketch *sketch // replaces exact once exact is full
	full   bool
}

// NewWindow returns an empty window that covers span, which must be positive.
func NewWindow(span time.Duration) *Window {
	return &Window{sliceLength: max(1, int64(span)/slicesPerWindow)}
}

// Add adds the sample v at time now. From one call to the next, now must not go back by
// more than a slice.
func (w *Window) Add(now, v int64) {
	w.sliceByNumber(now/w.sliceLength + 1).add(v)
}

// sliceByNumber returns the slice with this number. It first clears the slice if it still
// holds the samples of an older time.
func (w *Window) sliceByNumber(number int64) *timeSlice {
	s := &w.slices[number%slicesPerWindow]
	if s.number != number {
		s.reset(number)
	}
	return s
}

func (s *timeSlice) reset(number int64) {
	s.number, s.exact, s.max = number, s.exact[:0], math.MinInt64
	if s.full {
		s.full = false
		s.sketch.clear()
	}
}

func (s *timeSlice) add(v int64) {
	s.max = max(s.max, v)
	switch {
	case s.full:
		s.sketch.add(v)
	case len(s.exact) < exactPerSlice:
		s.exact = append(s.exact, v)
	default:
		s.switchToSketch()
		s.sketch.add(v)
	}
}

// switchToSketch moves the exact samples into the sketch.
func (s *timeSlice) switchToSketch() {
	if s.sketch == nil {
		s.sketch = new(sketch)
	}
	s.full = true
	for _, v := range s.exact {
		s.sketch.add(v)
	}
	s.exact = s.exact[:0]
}

// Scratch is the working memory of Window.Percentiles. One Scratch can serve any number
// of windows, one at a time.
type Scratch struct {
	exact  []int64
	sketch sketch
}

// Percentiles returns the percentiles of the samples added in the span before now.
func (w *Window) Percentiles(now int64, tmp *Scratch) Percentiles {
	tmp.exact = tmp.exact[:0]
	tmp.sketch.clear()
	last := now/w.sliceLength + 1
	for i := range w.slices {
		s := &w.slices[i]
		if s.number <= last-slicesPerWindow {
			continue
		}
		tmp.exact = append(tmp.exact, s.exact...)
		if s.full {
			tmp.sketch.merge(s.sketch)
		}
	}
	return tmp.percentiles()
}

// Max returns the greatest sample added in the span before now, exactly. It returns 0 if there is no sample.
func (w *Window) Max(now int64) int64 {
	greatest, last := int64(math.MinInt64), now/w.sliceLength+1
	for i := range w.slices {
		if s := &w.slices[i]; s.number > last-slicesPerWindow && s.number > 0 {
			greatest = max(greatest, s.max)
		}
	}
	if greatest == math.MinInt64 {
		return 0
	}
	return greatest
}

func (t *Scratch) percentiles() Percentiles {
	if t.sketch.count == 0 {
		slices.Sort(t.exact)
		return percentilesByRank(int64(len(t.exact)), func(n int64) int64 { return t.exact[n] })
	}
	for _, v := range t.exact {
		t.sketch.add(v)
	}
	return percentilesByRank(t.sketch.count, t.sketch.valueAt)
}

// percentilesByRank returns the percentiles of count values. valueAt returns the value at
// an index of the sorted values.
func percentilesByRank(count int64, valueAt func(int64) int64) Percentiles {
	if count == 0 {
		return Percentiles{}
	}
	// The nearest rank of p % is the ceiling of count*p/100, counted from 1.
	at := func(p int64) int64 { return valueAt((count*p+99)/100 - 1) }
	return Percentiles{Count: count, P50: at(50), P90: at(90), P99: at(99)}
}
