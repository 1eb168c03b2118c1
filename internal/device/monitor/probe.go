package monitor

import (
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/aggregate"
	"rdma_events/internal/telemetry/measure"
)

// durationStats collects one duration of many rounds or calls: for the interval and for the window.
type durationStats struct {
	interval aggregate.Interval
	window   *aggregate.Window
}

// Indexes of the durations of a round. From roundGet on they are its stages.
const (
	roundWake = iota
	roundAck
	roundHold
	roundTotal
	roundGet
	roundArm
	roundDrain
	roundDurations
)

// probe holds the counts and latencies of one series of rdma_cq_probe.
type probe struct {
	verbs.ProbeKey
	base     ledger.ProbeCounts // of dead workers
	live     ledger.ProbeCounts // the running worker's
	released uint64
	newest   int64 // end of the newest round, CLOCK_MONOTONIC ns

	ended, ok bool
	status    string

	durations []durationStats // without the stages unless Config.Stages is set
	histogram *aggregate.Histogram
	rate      aggregate.Rate
}

func newProbe(k verbs.ProbeKey, cfg *Config) *probe {
	p := &probe{ProbeKey: k, durations: make([]durationStats, roundGet)}
	if cfg.Stages {
		p.durations = make([]durationStats, roundDurations)
	}
	for i := range p.durations {
		p.durations[i].window = aggregate.NewWindow(cfg.Window)
	}
	if cfg.Histogram {
		p.histogram = new(aggregate.Histogram)
	}
	return p
}

// addRound adds the result and the durations of a round. The counts come from the ledger.
func (p *probe) addRound(r *verbs.Round, now int64) {
	if r.Outcome == verbs.OutcomeCanceled || r.Outcome == verbs.OutcomeDisturbed {
		return
	}
	p.ended, p.ok = true, r.Outcome == verbs.OutcomeSuccess
	if !p.ok {
		p.status = r.Status
	}
	p.newest = min(max(r.Start+r.Total, p.newest), now) // not now: the round may have waited in its ring until Gather
	values := [roundDurations]int64{r.Wake, r.Ack, r.Hold, r.Total, r.Get, r.Arm, r.Drain}
	for i := range p.durations {
		// 0: the round did not reach this stage.
		if v := values[i]; v > 0 {
			p.durations[i].interval.Add(v)
			p.durations[i].window.Add(p.newest, v)
		}
	}
	if p.histogram != nil && r.Wake > 0 {
		p.histogram.Add(r.Wake)
	}
}

// addToBase adds the dead worker's counts to base.
func (p *probe) addToBase() {
	p.base = p.base.Add(p.live)
	p.released += p.live.Events - p.live.Acked
	p.live = ledger.ProbeCounts{}
}

// makePoint returns the point of the probe for a Gather, and begins its next interval.
func (p *probe) makePoint(device string, g *gathering) *measure.Probe {
	v := &measure.Probe{
		Device: device, ProbeKey: p.ProbeKey,
		Counts: p.base.Add(p.live), Unacked: p.live.Events - p.live.Acked, Released: p.released,
		OK: p.ok, HasOK: p.ended, Status: p.status, At: g.now,
	}
	v.EventsRate = p.rate.Update(v.Counts.Events, g.elapsed)
	stats := [roundDurations]struct {
		stat   *aggregate.Stat
		window *aggregate.Percentiles
	}{
		{&v.Wake, &v.WakeP}, {&v.Ack, &v.AckP}, {&v.Hold, &v.HoldP}, {&v.Total, &v.TotalP},
		{&v.Get, &v.GetP}, {&v.Arm, &v.ArmP}, {&v.Drain, &v.DrainP},
	}
	for i := range p.durations {
		*stats[i].stat = p.durations[i].interval.End()
		*stats[i].window = p.durations[i].window.Percentiles(g.t.mono, g.tmp)
	}
	return v
}
