package monitor

import (
	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/aggregate"
	"rdma_events/internal/telemetry/measure"
)

// latency is one of the durations of a round.
type latency struct {
	interval aggregate.Interval
	window   *aggregate.Window
}

// The latencies of a round; those from lapGet on are stages.
const (
	lapWake = iota
	lapAck
	lapHold
	lapTotal
	lapGet
	lapArm
	lapDrain
	laps
)

// probe holds the counts and latencies of one series of rdma_cq_probe.
type probe struct {
	verbs.ProbeKey
	base     ledger.ProbeCounts // of dead workers
	live     ledger.ProbeCounts // the running worker's
	released uint64
	newest   int64 // when the newest round ended, CLOCK_MONOTONIC ns

	ended, ok bool
	status    string

	laps      []latency // without the stages unless Config.Stages is set
	histogram *aggregate.Histogram
	rate      aggregate.Rate
}

func newProbe(k verbs.ProbeKey, cfg *Config) *probe {
	p := &probe{ProbeKey: k, laps: make([]latency, lapGet)}
	if cfg.Stages {
		p.laps = make([]latency, laps)
	}
	for i := range p.laps {
		p.laps[i].window = aggregate.NewWindow(cfg.Window)
	}
	if cfg.Histogram {
		p.histogram = new(aggregate.Histogram)
	}
	return p
}

// round adds the result and the latencies of a round. Its counts come from the ledger.
func (p *probe) round(r *verbs.Round, now int64) {
	if r.Outcome == verbs.OutcomeCanceled || r.Outcome == verbs.OutcomeDisturbed {
		return
	}
	p.ended, p.ok = true, r.Outcome == verbs.OutcomeSuccess
	if !p.ok {
		p.status = r.Status
	}
	p.newest = min(max(r.Start+r.Total, p.newest), now) // it may have waited for Gather in its ring
	values := [laps]int64{r.Wake, r.Ack, r.Hold, r.Total, r.Get, r.Arm, r.Drain}
	for i := range p.laps {
		// 0: the round did not come that far.
		if v := values[i]; v > 0 {
			p.laps[i].interval.Add(v)
			p.laps[i].window.Add(p.newest, v)
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

// view returns the point of the probe for a Gather, and begins the next interval.
func (p *probe) view(device string, g *gathering) *measure.Probe {
	v := &measure.Probe{
		Device: device, ProbeKey: p.ProbeKey,
		Counts: p.base.Add(p.live), Unacked: p.live.Events - p.live.Acked, Released: p.released,
		OK: p.ok, HasOK: p.ended, Status: p.status, At: g.now,
	}
	v.EventsRate = p.rate.Update(v.Counts.Events, g.elapsed)
	stats := [laps]struct {
		stat   *aggregate.Stat
		window *aggregate.Percentiles
	}{
		{&v.Wake, &v.WakeP}, {&v.Ack, &v.AckP}, {&v.Hold, &v.HoldP}, {&v.Total, &v.TotalP},
		{&v.Get, &v.GetP}, {&v.Arm, &v.ArmP}, {&v.Drain, &v.DrainP},
	}
	for i := range p.laps {
		*stats[i].stat = p.laps[i].interval.End()
		*stats[i].window = p.laps[i].window.Percentiles(g.t.mono, g.tmp)
	}
	return v
}
