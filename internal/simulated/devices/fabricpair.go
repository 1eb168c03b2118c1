package devices

import (
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/verdict"
)

// fabricPair is a pair of a Fabric. The lock of the Fabric guards it.
type fabricPair struct {
	f       *fabricEnd
	slot    int
	rc      uint32
	offered verbs.FabricRole
	peer    verbs.FabricPeer
	near    *fabricEnd // the peer, if it is a Fabric of this world
	remote  *remote    // the peer otherwise

	seq  uint64
	sent [256]struct {
		seq uint64
		at  int64
	}
	next  int64 // time of the next round, or of the next probe that a remote sends
	watch verdict.EchoWatch

	write       fabricWrite
	writes      uint64 // attempts of all writes
	writeFailed bool

	arrived         [256]uint64 // number of the newest probe received, by its number modulo 256
	rx, tx          [verbs.MaxFabricPaths]uint64
	peerDry, ownDry [verbs.MaxFabricPaths]uint64 // values at the last echo
	limit           echoLimit
}

// fabricWrite is an outstanding write.
type fabricWrite struct {
	posted   int64 // 0: no write is outstanding
	attempts int
	done     bool  // an acknowledgement arrives at due
	due      int64 // time of the acknowledgement or of the next attempt
}

// writeAttempts is the number of transmissions: the first one and the retries of the native backend.
const writeAttempts = 7

// connectPair connects a pair.
func (f *fabricEnd) connectPair(p *fabricPair, peer *verbs.FabricPeer) {
	w := f.d.w
	p.peer = *peer
	p.next = w.clock() + int64(peer.First)
	p.ownDry = f.dry
	if p.offered == verbs.FabricAnswers {
		f.rcs.set(p.rc, peer.RC)
	}
	f.counter.recordJoin(p.slot, peer.Session)
	if p.near = w.fabric.find(peer.UD[0], peer.QKey); p.near != nil {
		return
	}
	f.joins[peer.Host]++
	device, port := f.d.h.attr.Name, f.c.Port
	far := w.remotePort(peer.Host, peer.Device, peer.Port)
	p.remote = &remote{
		remotePort: far, peer: *peer,
		key:  w.randomSeed(device, port, f.joins[peer.Host], "way to "+peer.Host+" "+peer.Device),
		wire: f.d.h.ports[port-1].wire() * (1 + far.extraDistance()),
	}
	for _, e := range w.conditions {
		if e.appliesTo(device, port, peer.Host) {
			p.remote.conditions = append(p.remote.conditions, e)
		}
	}
}

// disconnectPair ends a pair. p may be nil.
func (f *fabricEnd) disconnectPair(p *fabricPair) {
	if p != nil {
		f.rcs.remove(p.rc)
	}
}

// runStep carries out the actions of a probing pair that are due.
func (p *fabricPair) runStep(now int64, active bool, s *sink) {
	if p.watch.CheckMissing(now, p.write.posted, p.writeFailed) {
		s.addFact(p, verbs.FabricMissing, now)
		s.urgent = true
	}
	if interval := int64(p.f.c.Interval); now >= p.next {
		p.sendProbe(now, active, s)
		if p.write.posted == 0 && !p.writeFailed {
			p.postWrite(now, active, s)
		}
		p.next += interval + (now-p.next)/interval*interval
	} else if p.watch.TakeMoreProbe(now) {
		p.sendProbe(now, active, s)
	}
}

// sendProbe sends a probe. The probe is lost if the port has no link.
func (p *fabricPair) sendProbe(now int64, active bool, s *sink) {
	path := int(p.seq % uint64(len(p.peer.UD)))
	p.seq++
	sent := &p.sent[p.seq%uint64(len(p.sent))]
	sent.seq, sent.at = p.seq, now
	fact := s.addFact(p, verbs.FabricSent, now)
	fact.Path, fact.Seq = path, p.seq
	p.watch.NoteSent(p.seq, now)
	switch {
	case !active:
	case p.near != nil:
		p.near.inbox.deliver(datagram{at: now + nearby, from: p.f.ud[path], path: path, session: p.peer.Session, seq: p.seq})
	default:
		if echo, ok := p.remote.echoProbe(path, p.seq, now); ok {
			p.f.inbox.insert(echo)
		}
	}
}

// postWrite posts a write.
func (p *fabricPair) postWrite(now int64, active bool, s *sink) {
	p.write = fabricWrite{posted: now}
	s.addFact(p, verbs.FabricWrite, now)
	p.sendWrite(now, active)
}

// sendWrite transmits or retransmits the outstanding write.
func (p *fabricPair) sendWrite(now int64, active bool) {
	p.write.attempts++
	p.writes++
	at, ok := now+2*nearby, false
	if p.near != nil {
		up, err := p.near.linkState()
		ok = up && err == nil && p.near.rcs.connected(p.peer.RC, p.rc)
	} else {
		at, ok = p.remote.ackArrival(p.writes|writeDraws, now)
	}
	if p.write.done = ok && active; !p.write.done {
		at = now + p.f.d.h.ackTimeout()
	}
	p.write.due = at
}

// handleWriteDue handles the outstanding write when it is due: it is acknowledged, retransmitted or failed.
func (p *fabricPair) handleWriteDue(active bool, s *sink) {
	switch w := p.write; {
	case w.done:
		p.finishWrite(verbs.FabricWriteDone, "", s)
	case w.attempts == writeAttempts:
		p.finishWrite(verbs.FabricWriteFailed, "retry_exc_err", s)
		p.writeFailed, s.urgent = true, true
	default:
		p.sendWrite(w.due, active)
	}
}

func (p *fabricPair) finishWrite(kind verbs.FabricKind, status string, s *sink) {
	fact := s.addFact(p, kind, p.write.due)
	fact.Took, fact.Status = p.write.due-p.write.posted, status
	p.write = fabricWrite{}
}

// takeEcho handles an echo. It returns false if the echo answers no known probe.
func (p *fabricPair) takeEcho(m *datagram, s *sink) bool {
	sent := &p.sent[m.seq%uint64(len(p.sent))]
	if m.seq == 0 || sent.seq != m.seq {
		return false
	}
	fact := s.addFact(p, verbs.FabricEcho, m.at)
	fact.Path, fact.Seq, fact.Received, fact.Posted, fact.Delay = m.path, m.seq, m.rx, m.tx, m.delay
	fact.Took = m.at - sent.at
	fact.Dry = m.dry != p.peerDry[m.path] || p.f.dry[m.path] != p.ownDry[m.path]
	sent.seq = 0 // a second echo of the probe is foreign
	p.peerDry[m.path], p.ownDry[m.path] = m.dry, p.f.dry[m.path]
	p.watch.NoteEcho(m.seq)
	return true
}

// isNew reports whether a probe arrives for the first time, and records it. A network may deliver a datagram twice.
func (p *fabricPair) isNew(seq uint64) bool {
	last := &p.arrived[seq%uint64(len(p.arrived))]
	if seq <= *last {
		return false
	}
	*last = seq
	return true
}

// answerProbe echoes a probe of the peer, unless the peer has sent too many probes in this second. A probe without an echo still counts as
// received.
func (p *fabricPair) answerProbe(m *datagram, now int64) {
	p.rx[m.path]++
	if !p.limit.allows(now) {
		p.f.counter.countRefused()
		return
	}
	p.tx[m.path]++
	p.f.counter.countEcho(p.slot)
	if p.near != nil {
		p.near.inbox.deliver(datagram{
			at: now + nearby, echo: true, from: p.f.ud[m.path], path: m.path, session: m.session, seq: m.seq,
			rx: p.rx[m.path], tx: p.tx[m.path], dry: p.f.dry[m.path] - p.ownDry[m.path], delay: echoDelayMedian,
		})
	}
}

// addRemoteProbes adds the probes that the remote has sent by now to the inbox.
func (p *fabricPair) addRemoteProbes(now int64, active bool) {
	for ; p.next <= now; p.next += int64(p.f.c.Interval) {
		path := int(p.seq % uint64(len(p.peer.UD)))
		p.seq++
		if at, ok := p.remote.probeArrival(path, p.seq, p.next); ok && active {
			p.f.inbox.insert(datagram{at: at, from: p.peer.UD[path], path: path, session: p.peer.Session, seq: p.seq})
		}
	}
}
