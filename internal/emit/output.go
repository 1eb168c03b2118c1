package emit

import (
	"time"

	"rdma_events/internal/measure"
)

// setBack is how far the time of a series must go back to be followed: less is
// the disorder of concurrent sources, more is a wall clock that was set, which
// the monitor logs.
const setBack = time.Second

// Accumulator takes lines; telegraf.Accumulator is one. It may block.
type Accumulator interface {
	AddFields(measurement string, fields map[string]any, tags map[string]string, t ...time.Time)
}

// times are the times of the last points by key. They rise, since InfluxDB keeps one
// point per series and time.
type times struct {
	last map[measure.Key]time.Time
	full int // as many of them are looked through
}

// next returns the time with which a point is emitted.
func (s *times) next(p measure.Point) time.Time {
	key := p.Key()
	// Without the monotonic reading, of which points of the same clock differ.
	t := p.Time().Round(0)
	last, seen := s.last[key]
	if seen && !t.After(last) && last.Sub(t) <= setBack {
		t = last.Add(time.Nanosecond)
	}
	s.last[key] = t
	s.full = forget(s.last, s.full, func(last time.Time) bool { return t.Sub(last) > forgettable })
	return t
}
