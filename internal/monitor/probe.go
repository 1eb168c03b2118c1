package monitor

import (
	"cmp"

	"rdma_events/internal/aggregate"
	"rdma_events/internal/ledger"
	"rdma_events/internal/measure"
	"rdma_events/internal/verbs"
)

// probeKey is the identity of a series of rdma_cq_probe.
type probeKey struct {
	port, vector int
	method       verbs.Method
}

func (k probeKey) compare(o probeKey) int {
	return cmp.Or(cmp.Compare(k.port, o.port), cmp.Compare(k.vector, o.vector), cmp.Compare(k.method, o.method))
}

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

// probe is what is counted for one series of rdma_cq_probe.
type probe struct {
	probeKey
	base     ledger.ProbeCounts // of dead workers
	live     ledger.ProbeCounts // the running worker's
	released uint64

	ended, ok bool
	status    string

	laps      []latency // without the stages, where they are not wanted
	histogram *aggregate.Histogram
	rate      aggregate.Rate
}

func newProbe(k probeKey, cfg *Config) *probe {
	p := &probe{probeKey: k, laps: make([]latency, lapGet)}
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

// round takes the detail of a round; its counts come from the ledger.
func (p *probe) round(r *verbs.Round, now int64) {
	if r.Outcome == verbs.OutcomeCanceled {
		return
	}
	p.ended, p.ok = true, r.Outcome == verbs.OutcomeSuccess
	if !p.ok {
		p.status = r.Status
	}
	values := [laps]int64{r.Wake, r.Ack, r.Hold, r.Total, r.Get, r.Arm, r.Drain}
	for i := range p.laps {
		// 0: the round did not come that far.
		if v := values[i]; v > 0 {
			p.laps[i].interval.Add(v)
			p.laps[i].window.Add(now, v)
		}
	}
	if p.histogram != nil && r.Wake > 0 {
		p.histogram.Add(r.Wake)
	}
}

// look takes the running worker's counts from its ledger; none goes back.
func (p *probe) look(c *ledger.ProbeCounts) {
	l := &p.live
	for _, n := range [...]struct {
		to   *uint64
		from uint64
	}{
		{&l.Rounds, c.Rounds},
		{&l.Successes, c.Successes},
		{&l.Errors, c.Errors},
		{&l.LostEvents, c.LostEvents},
		{&l.LostCompletions, c.LostCompletions},
		{&l.Events, c.Events},
		{&l.Acked, min(c.Acked, c.Events)},
		{&l.Spurious, c.Spurious}, {&l.Resent, c.Resent},
		{&l.Late, c.Late},
	} {
		*n.to = max(*n.to, n.from)
	}
}

// fold ends the running worker's counts.
func (p *probe) fold() {
	p.base = p.base.Add(p.live)
	p.released += p.live.Events - p.live.Acked
	p.live = ledger.ProbeCounts{}
}

func (p *probe) view(device string, t *moment, elapsed int64, tmp *aggregate.Scratch) measure.Probe {
	v := measure.Probe{
		Device: device, Port: p.port, Vector: p.vector, Method: p.method,
		Counts: p.base.Add(p.live), Unacked: p.live.Events - p.live.Acked, Released: p.released,
		OK: p.ok, HasOK: p.ended, Status: p.status,
	}
	v.EventsRate = p.rate.Take(v.Counts.Events, elapsed)
	stats := [laps]struct {
		stat   *measure.Stat
		window *measure.Percentiles
	}{
		{&v.Wake, &v.WakeP}, {&v.Ack, &v.AckP}, {&v.Hold, &v.HoldP}, {&v.Total, &v.TotalP},
		{&v.Get, &v.GetP}, {&v.Arm, &v.ArmP}, {&v.Drain, &v.DrainP},
	}
	for i := range p.laps {
		*stats[i].stat = measure.Stat(p.laps[i].interval.Take())
		*stats[i].window = measure.Percentiles(p.laps[i].window.Percentiles(t.mono, tmp))
	}
	if p.histogram != nil {
		v.Histogram = p.histogram.Cumulative()
	}
	return v
}
