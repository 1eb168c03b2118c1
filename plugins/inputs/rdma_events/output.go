package rdma_events

import (
	"time"

	"github.com/influxdata/telegraf"
)

// setBack is how far the time of a series must go back to be followed: less is
// the disorder of concurrent sources, more is a wall clock that was set, which
// the monitor logs.
const setBack = time.Second

// output hands points to the accumulator with times that rise within each
// series: InfluxDB keeps one point per series and time.
type output struct {
	acc  telegraf.Accumulator
	last map[string]time.Time // by series
}

// add blocks while Telegraf does not read.
func (o *output) add(p *point) {
	t := o.rise(p)
	o.last[p.series] = t
	o.acc.AddFields(p.name, p.fields, p.tags, t)
}

func (o *output) rise(p *point) time.Time {
	// Without the monotonic reading, of which points of the same clock differ.
	t := p.time.Round(0)
	last, seen := o.last[p.series]
	if !seen || t.After(last) || last.Sub(t) > setBack {
		return t
	}
	return last.Add(time.Nanosecond)
}
