package agent

import (
	"time"

	"rdma_events/internal/telemetry/emit"
	"rdma_events/internal/telemetry/measure"
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
	p.devices.announceOpened(point)
	p.status.remember(point)
	p.records.record(point)
	p.emitter.Emit(point) // which owns it, and may merge it
}

// interval takes the points of an interval, and the agent's own, which the records complete.
func (p *points) interval(i *measure.Interval, now time.Time) {
	p.records.recordInterval(i)
	all := append(i.Points, i.Own)
	p.status.keep(all, now)
	p.emitter.EmitInterval(all)
}
