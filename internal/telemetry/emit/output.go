package emit

import (
	"context"
	"time"

	"rdma_events/internal/telemetry/measure"
)

// clockSetBack is the largest backward step in the times of a series that is not taken for
// a wall clock that was set back. Steps up to this size come from concurrent sources, and
// the emitted times rise nevertheless. Emitted times follow a larger step, which the
// monitor logs.
const clockSetBack = time.Second

// Sink receives points in the order in which they are emitted.
type Sink interface {
	// Write writes the lines of a point with the time at, and does not keep the point. It may
	// block, and returns soon after ctx is done. dropped is the number of lines not written.
	Write(ctx context.Context, p measure.Point, at time.Time) (dropped uint64)
}

// Accumulator receives lines. It may block. A telegraf.Accumulator implements it.
type Accumulator interface {
	AddFields(measurement string, fields map[string]any, tags map[string]string, t ...time.Time)
}

// Lines returns a Sink that passes the lines of points to an Accumulator.
func Lines(acc Accumulator) Sink { return lineSink{acc} }

type lineSink struct{ acc Accumulator }

// Write implements Sink.
func (s lineSink) Write(ctx context.Context, p measure.Point, at time.Time) (dropped uint64) {
	p.Lines(func(l measure.Line) {
		if ctx.Err() == nil {
			s.acc.AddFields(l.Name, l.Fields, l.Tags, at)
		}
		// If ctx ended while AddFields blocked, Telegraf most likely did not get the line.
		if ctx.Err() != nil {
			dropped++
		}
	})
	return dropped
}

// seriesTimes makes the times of each series increase, because InfluxDB keeps only one
// point per series and time.
type seriesTimes struct {
	last      map[measure.Key]time.Time // of the last point of each series
	cleanupAt int                       // size of last above which stale entries are deleted
}

// next returns the time with which to emit a point, and records it.
func (s *seriesTimes) next(p measure.Point) time.Time {
	key := p.Key()
	// Round(0) removes the monotonic clock reading, which differs between points of the same time.
	t := p.Time().Round(0)
	if key.Identity != "" {
		// The producer already gave each point of such a series a distinct time, and the points may arrive out of
		// order. Moving a time could make it equal to the time of another point.
		return t
	}
	last, seen := s.last[key]
	if seen && !t.After(last) && last.Sub(t) <= clockSetBack {
		t = last.Add(time.Nanosecond)
	}
	s.last[key] = t
	s.cleanupAt = deleteStale(s.last, s.cleanupAt, func(last time.Time) bool { return t.Sub(last) > staleAfter })
	return t
}
