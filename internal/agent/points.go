package agent

import (
	"time"

	"rdma_events/internal/emit"
	"rdma_events/internal/measure"
)

// points is the way of every point from the parts of the agent to Telegraf. Its methods do not block, and may be called
// concurrently.
type points struct {
	devices *announcer
	status  *statusKeeper
	records *recordKeeper
	emitter *emit.Emitter
}

// happened takes a point when it happens. The points own it from then on.
func (p *points) happened(point measure.Point) {
	p.devices.see(point)
	p.status.see(point)
	p.records.see(point)
	p.emitter.Emit(point) // which owns it, and may merge it
}

// interval takes the points of an interval, and the agent's own, which the records complete.
func (p *points) interval(all []measure.Point, own *measure.Collector, now time.Time) {
	p.records.interval(all, own)
	all = append(all, own)
	p.status.keep(all, now)
	p.emitter.Interval(all)
}
