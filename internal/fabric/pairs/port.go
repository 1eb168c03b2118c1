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

// port is a port of this host. Keeper.mu guards it.
type port struct {
	k      *Keeper
	device string
	number int
	known  bool             // the device exists, and its worker has reported how peers reach the port
	info   verbs.FabricPort // Epoch 0: the port has no Fabric now
	state  verbs.PortState  // PortNop: not known
	role   string           // verbs.RoleManagement, or ""

	pairs      [MaxPeers]*pair
	responders [maxResponders]*responder

	verdict struct {
		verdict verdict.Verdict
		since   int64 // CLOCK_MONOTONIC ns
	}

	removedPairs  verdict.Counts             // counts of removed pairs
	endedWorkers  measure.FabricProberCounts // counts of ended workers
	currentWorker measure.FabricProberCounts // counts of the running worker
	latencies
	stamp stamp
}

// update records how peers reach the port from now on. If the epoch has changed, it ends all sessions of the port.
func (p *port) update(info *verbs.FabricPort) {
	before := p.info.Epoch
	p.known = true
	p.info = *info
	if before == info.Epoch {
		return
	}
	for _, pr := range p.pairs {
		if pr != nil {
			pr.hasQueuePair = false
			pr.endSession()
			pr.host.wake.Send()
		}
	}
	p.k.reconnectByName(p.device)
	p.responders = [maxResponders]*responder{}
	p.k.signalFreedSlots()
	if info.Epoch == 0 && !info.Unable {
		p.k.cfg.Log.Debug("port: no probes between hosts", "device", p.device, "port", p.number, "reason", info.Reason)
	}
	p.k.cfg.Announce(exchange.Change{Device: p.device, Port: p.number, Epoch: info.Epoch})
	p.updateVerdict(p.k.cfg.Mono())
}

// addFacts evaluates facts of the port's Fabric, and updates all verdicts as of f.UpTo.
func (p *port) addFacts(f *verbs.FabricFacts) {
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
			p.pairs[fact.Pair].addFact(fact)
		}
	}
	for _, pr := range p.pairs {
		if pr != nil {
			pr.updateVerdict(f.UpTo)
		}
	}
	p.updateVerdict(f.UpTo)
}

// isDown reports whether the port is known not to be active.
func (p *port) isDown() bool { return p.state != verbs.PortActive && p.state != verbs.PortNop }

// updateVerdict derives the verdict of the port from the verdicts of its pairs, and emits the port and its pairs where verdicts have changed.
func (p *port) updateVerdict(at int64) {
	if !p.known {
		return
	}
	var within, across []verdict.PeerVerdict
	for _, pr := range p.pairs {
		if pr == nil || pr.judge == nil {
			continue
		}
		v, _ := pr.judge.Verdict()
		if one := (verdict.PeerVerdict{Host: pr.host.Name, Verdict: v}); pr.host.Scope == pinglist.ScopeGroup {
			within = append(within, one)
		} else {
			across = append(across, one)
		}
	}
	v := verdict.JudgePort(!p.isDown(), within, across...)
	changed := v != p.verdict.verdict
	if changed {
		p.verdict.verdict, p.verdict.since = v, at
	}
	for _, pr := range p.pairs {
		if pr != nil {
			pr.emitIfChanged(at)
		}
	}
	if changed && p.isUsed() {
		point := p.newPoint(at)
		point.At = p.k.wallTime(p.stamp.nextTime(at))
		p.k.cfg.Emit(point)
	}
}

// isUsed reports whether the port takes part in probes between hosts, even if it cannot be probed at the moment.
func (p *port) isUsed() bool { return p.known && !p.info.Unable && p.k.ownList.ok }

// updateCounts records the counts of the worker. over is true if the worker has ended: events that it read and did not acknowledge are then
// released.
func (p *port) updateCounts(c *ledger.FabricState, over bool) {
	p.currentWorker = measure.FabricProberCounts{FabricCounts: c.FabricCounts, Unacked: c.Events - c.Acked}
	p.updateResponders(c.Pairs)
	if !over {
		return
	}
	for i := range c.Pairs {
		for _, pr := range p.pairs {
			if pr != nil {
				pr.addUnreported(&c.Pairs[i])
			}
		}
	}
	p.currentWorker.Released, p.currentWorker.Unacked = p.currentWorker.Unacked, 0
	p.endedWorkers, p.currentWorker = p.workerCounts(), measure.FabricProberCounts{}
}

// updateResponders records which responders have answered probes since the previous call.
func (p *port) updateResponders(pairs []ledger.FabricPair) {
	for _, a := range p.responders {
		if a == nil {
			continue
		}
		i := slices.IndexFunc(pairs, func(c ledger.FabricPair) bool { return c.Session == a.session })
		if i >= 0 && pairs[i].Answered > a.echoes {
			a.echoes, a.lastEcho = pairs[i].Answered, p.k.cfg.Mono()
		}
	}
}

// workerCounts returns the sums of the counts of all workers of the port.
func (p *port) workerCounts() measure.FabricProberCounts {
	a, b := &p.endedWorkers, &p.currentWorker
	return measure.FabricProberCounts{
		FabricCounts: a.Add(b.FabricCounts), Unacked: a.Unacked + b.Unacked, Released: a.Released + b.Released,
	}
}
