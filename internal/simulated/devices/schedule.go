package devices

import "math"

// never is later than anything on a timeline.
const never = math.MaxInt64

// schedule has the times of an entry, in ns since the epoch. The first time is at. If
// every is not 0, the entry repeats at that interval, times times in total, or forever if
// times is 0.
type schedule struct {
	at, every, times int64
}

// next returns the first occurrence later than after, or never.
func (s schedule) next(after int64) int64 {
	if after < s.at {
		return s.at
	}
	if s.every == 0 {
		return never
	}
	k := (after-s.at)/s.every + 1
	if s.times > 0 && k >= s.times {
		return never
	}
	return s.at + k*s.every
}

// last returns the last occurrence not later than t. It returns false if there is none.
func (s schedule) last(t int64) (int64, bool) {
	if t < s.at {
		return 0, false
	}
	if s.every == 0 {
		return s.at, true
	}
	k := (t - s.at) / s.every
	if s.times > 0 {
		k = min(k, s.times-1)
	}
	return s.at + k*s.every, true
}

// count returns the number of occurrences not later than t.
func (s schedule) count(t int64) int64 {
	switch {
	case t < s.at:
		return 0
	case s.every == 0:
		return 1
	}
	k := (t-s.at)/s.every + 1
	if s.times > 0 {
		k = min(k, s.times)
	}
	return k
}

// shift returns the schedule delayed by d. If d is never, the result has no occurrence.
func (s schedule) shift(d int64) schedule {
	if d == never {
		return schedule{at: never}
	}
	s.at += d
	return s
}

// window is a schedule of periods. Each has the given length, or never ends.
// Periods do not overlap.
type window struct {
	schedule
	length int64
}

// active reports whether t is in a period, and returns the end of that period.
func (w window) active(t int64) (end int64, ok bool) {
	start, ok := w.last(t)
	if !ok {
		return 0, false
	}
	end = w.end(start)
	return end, t < end
}

// edge returns the first beginning or end of a period later than after.
func (w window) edge(after int64) int64 {
	next := w.next(after)
	if end, ok := w.active(after); ok {
		return min(next, end)
	}
	return next
}

func (w window) end(start int64) int64 {
	if w.length == never {
		return never
	}
	return start + w.length
}
