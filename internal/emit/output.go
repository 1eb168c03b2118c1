package emit

import (
	"time"

	"rdma_events/internal/measure"
)

// setBack is the backward step of a series' time above which emitted times follow it. A
// smaller step comes from the disorder of concurrent sources. A greater one comes from a
// wall clock that was set back, which the monitor logs.
const setBack = time.Second

// Accumulator receives lines; a telegraf.Accumulator is one. It may block.
type Accumulator interface {
	AddFields(measurement string, fields map[string]any, tags map[string]string, t ...time.Time)
}

// times holds the time of the last point of each key. Times of a key rise, because
// InfluxDB keeps one point per series and time.
type times struct {
	last map[measure.Key]time.Time
	full int // size of last at which old entries are deleted
}

// next returns the time with which a point is emitted.
func (s *times) next(p measure.Point) time.Time {
	key := p.Key()
	// Round(0) strips the monotonic reading, by which points of the same clock differ.
	t := p.Time().Round(0)
	last, seen := s.last[key]
	if seen && !t.After(last) && last.Sub(t) <= setBack {
		t = last.Add(time.Nanosecond)
	}
	s.last[key] = t
	s.full = forget(s.last, s.full, func(last time.Time) bool { return t.Sub(last) > forgettable })
	return t
}
