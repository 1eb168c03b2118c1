package emit

import (
	"context"
	"time"

	"rdma_events/internal/telemetry/measure"
)

// setBack is the backward step of a series' time above which emitted times follow it. A
// smaller step comes from the disorder of concurrent sources. A greater one comes from a
// wall clock that was set back, which the monitor logs.
const setBack = time.Second

// Sink receives points in the order in which they are emitted.
type Sink interface {
	// Put takes a point with the time that it is emitted with, and does not keep it. It may
	// block, and returns soon once ctx is done. lost is how many of its lines were not taken.
	Put(ctx context.Context, p measure.Point, at time.Time) (lost uint64)
}

// Accumulator receives lines; a telegraf.Accumulator is one. It may block.
type Accumulator interface {
	AddFields(measurement string, fields map[string]any, tags map[string]string, t ...time.Time)
}

// Lines returns a Sink that passes the lines of points on to an Accumulator.
func Lines(acc Accumulator) Sink { return lines{acc} }

type lines struct{ acc Accumulator }

// Put implements Sink.
func (s lines) Put(ctx context.Context, p measure.Point, at time.Time) (lost uint64) {
	p.Lines(func(l measure.Line) {
		if ctx.Err() == nil {
			s.acc.AddFields(l.Name, l.Fields, l.Tags, at)
		}
		// ctx was done while AddFields blocked: most likely Telegraf did not get the line.
		if ctx.Err() != nil {
			lost++
		}
	})
	return lost
}

// times holds the time of the last point of each series. Times of a series rise, because
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
	if key.Apart != "" {
		// Each point of such a series has a time of its own already, and they may come out of order. A time that is
		// moved here could be that of another one.
		return t
	}
	last, seen := s.last[key]
	if seen && !t.After(last) && last.Sub(t) <= setBack {
		t = last.Add(time.Nanosecond)
	}
	s.last[key] = t
	s.full = forget(s.last, s.full, func(last time.Time) bool { return t.Sub(last) > forgettable })
	return t
}
