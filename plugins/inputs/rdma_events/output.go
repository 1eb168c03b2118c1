package rdma_events

import (
	"time"

	"rdma_events/internal/measure"
)

// setBack is how far the time of a series must go back to be followed: less is
// the disorder of concurrent sources, more is a wall clock that was set, which
// the monitor logs.
const setBack = time.Second

// fieldAdder is what output needs of a telegraf.Accumulator.
type fieldAdder interface {
	AddFields(measurement string, fields map[string]any, tags map[string]string, t ...time.Time)
}

// output hands points to the accumulator with times that rise within each
// series: InfluxDB keeps one point per series and time.
type output struct {
	acc  fieldAdder
	last map[string]time.Time // by series
	full int                  // as many of them are looked through
}

// add blocks while Telegraf does not read.
func (o *output) add(p *measure.Line) {
	t := o.rise(p)
	o.last[p.Series] = t
	o.full = forget(o.last, o.full, func(last time.Time) bool { return t.Sub(last) > forgettable })
	o.acc.AddFields(p.Name, p.Fields, p.Tags, t)
}

func (o *output) rise(p *measure.Line) time.Time {
	// Without the monotonic reading, of which points of the same clock differ.
	t := p.Time.Round(0)
	last, seen := o.last[p.Series]
	if !seen || t.After(last) || last.Sub(t) > setBack {
		return t
	}
	return last.Add(time.Nanosecond)
}
