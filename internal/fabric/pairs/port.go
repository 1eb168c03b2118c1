package pairs

import (
	"slices"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/exchange"
	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/telemetry/measure"
)

// port is a port of the host. Keeper.mu guards it.
type port struct {
	k      *Keeper
	device string
	number int
	known  bool             // the device is there, and its worker has said how peers reach the port
	info   verbs.FabricPort // Epoch 0: there is no Fabric now
	state  verbs.PortState  // PortNop: not known
	role   string           // verbs.RoleManagement, or ""

	pairs   [MaxPeers]*pair
	answers [maxAnswers]*answer

	verdict struct {
		verdict verdict.Verdict
		since   int64 // CLOCK_MONOTONIC ns
	}

	gone verdict.Counts     // of pairs that are no more
	base measure.FabricLane // of workers that have ended
	live measure.FabricLane // of the one that runs
	latencies
}

// renew takes how peers reach the port from now on. What was met with another epoch is over.
func (p *port) renew(info *verbs.FabricPort) {
	before := p.info.Epoch
	p.known = true
	p.info = *info
	if before == info.Epoch {
		return
	}
	for _, pr := range p.pairs {
		if pr != nil {
			pr.runs = false
			pr.part()
			pr.host.wake.Send()
		}
	}
	p.k.remakeByName(p.device)
	p.answers = [maxAnswers]*answer{}
	if info.Epoch == 0 && !info.Unable {
		p.k.cfg.Log.Debug("no probes between hosts", "device", p.device, "port", p.number, "reason", info.Reason)
	}
	p.k.cfg.Announce(exchange.Change{Device: p.device, Port: p.number, Epoch: info.Epoch})
	p.judge(p.k.cfg.Mono())
}

// facts handles what the port's Fabric saw, and judges as of the time of the last of it.
func (p *port) facts(f *verbs.FabricFacts) {
	for i := range f.Facts {
		fact := &f.Facts[i]
		switch {
		case fact.Pair < 0: // the port's thread was late, which moves all deadlines
			for _, pr := range p.pairs {
				if pr != nil {
					pr.tracker.ShiftTimes(fact.Took)
				}
			}
		case fact.Pair < MaxPeers && p.pairs[fact.Pair] != nil:
			p.pairs[fact.Pair].fact(fact)
		}
	}
	for _, pr := range p.pairs {
		if pr != nil {
			pr.judgeAt(f.UpTo)
		}
	}
	p.judge(f.UpTo)
}

// down reports whether the port is known not to be active.
func (p *port) down() bool { return p.state != verbs.PortActive && p.state != verbs.PortNop }

// judge says what follows for the port from its pairs, and emits what is said otherwise than before.
func (p *port) judge(at int64) {
	if !p.known {
		return
	}
	var within, across []verdict.PeerVerdict
	for _, pr := range p.pairs {
		if pr == nil || pr.judge == nil {
			continue
		}
		said, _ := pr.judge.Verdict()
		if one := (verdict.PeerVerdict{Host: pr.host.Name, Verdict: said}); pr.host.Scope == pinglist.ScopeGroup {
			within = append(within, one)
		} else {
			across = append(across, one)
		}
	}
	v := verdict.JudgePort(!p.down(), within, across...)
	changed := v != p.verdict.verdict
	if changed {
		p.verdict.verdict, p.verdict.since = v, at
	}
	for _, pr := range p.pairs {
		if pr != nil {
			pr.show(at)
		}
	}
	if changed && p.isUsed() {
		p.k.cfg.Emit(p.point(at))
	}
}

// isUsed reports whether the port has pairs, or would have some if it could.
func (p *port) isUsed() bool { return p.known && !p.info.Unable && p.k.list.ok }

// counted takes what the worker has counted so far. over: it has ended, and what it read and did not acknowledge is released.
func (p *port) counted(c *ledger.Fabric, over bool) {
	p.live = measure.FabricLane{FabricCounts: c.FabricCounts, Unacked: c.Events - c.Acked}
	p.hearAnswers(c.Pairs)
	if !over {
		return
	}
	for i := range c.Pairs {
		for _, pr := range p.pairs {
			if pr != nil {
				pr.unreported(&c.Pairs[i])
			}
		}
	}
	p.live.Released, p.live.Unacked = p.live.Unacked, 0
	p.base, p.live = p.lane(), measure.FabricLane{}
}

// hearAnswers notes which of the pairs that are answered have had probes since the last time.
func (p *port) hearAnswers(pairs []ledger.FabricPair) {
	for _, a := range p.answers {
		if a == nil {
			continue
		}
		i := slices.IndexFunc(pairs, func(c ledger.FabricPair) bool { return c.Session == a.session })
		if i >= 0 && pairs[i].Answered > a.echoed {
			a.echoed, a.heard = pairs[i].Answered, p.k.cfg.Mono()
		}
	}
}

// lane returns the counts of all workers.
func (p *port) lane() measure.FabricLane {
	a, b := &p.base, &p.live
	return measure.FabricLane{
		FabricCounts: a.Add(b.FabricCounts), Unacked: a.Unacked + b.Unacked, Released: a.Released + b.Released,
	}
}
