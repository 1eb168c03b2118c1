package agent

import (
	"time"

	"rdma_events/internal/telemetry/emit"
	"rdma_events/internal/telemetry/measure"
)

// pipeline passes every point from the parts of the agent to the log, the status, the records and Telegraf. Its methods
// do not block and may be called concurrently.
type pipeline struct {
	devices *announcer
	status  *statusKeeper
	records *recordKeeper
	emitter *emit.Emitter
}

// handlePoint processes a point when it happens. The caller must not use the point afterwards.
func (p *pipeline) handlePoint(point measure.Point) {
	p.devices.logIfOpened(point)
	p.status.rememberState(point)
	p.records.recordPoint(point)
	p.emitter.Emit(point) // the emitter owns the point from now on and may merge it
}

// handleInterval processes the points of an interval. It completes the agent's own point with the counts of the
// recorder. Telegraf reads the points while the host is judged by copies of them.
func (p *pipeline) handleInterval(i *measure.Interval, now time.Time) {
	p.records.recordInterval(i)
	all := append(i.Points, i.Own)
	judged := p.status.copyPoints(all)
	p.emitter.EmitInterval(all)
	p.status.storeInterval(judged, now)
}
