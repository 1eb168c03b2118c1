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
// recorder. The points are emitted before the host is judged, so that Telegraf does not wait for the judgement.
func (p *pipeline) handleInterval(i *measure.Interval, now time.Time) {
	p.records.recordInterval(i)
	all := append(i.Points, i.Own)
	copies := make([]measure.Point, len(all))
	for i, point := range all {
		copies[i] = point.Clone()
	}
	p.emitter.EmitInterval(all) // the emitter owns these points from now on
	p.status.storeInterval(copies, now)
}
