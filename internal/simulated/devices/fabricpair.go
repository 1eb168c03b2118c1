package devices

import (
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/fabric/verdict"
)

// fabricPair is a pair of a Fabric. The lock of the Fabric guards it.
type fabricPair struct {
	f       *fabricEnd
	place   int
	rc      uint32
	offered verbs.FabricRole
	peer    verbs.FabricPeer
	near    *fabricEnd // the peer, if it is of this world
	remote  *remote    // else

	seq  uint64
	sent [256]struct {
		seq uint64
		at  int64
	}
	next  int64 // when the next round is due; of a remote that probes, when it sends the next probe
	watch verdict.EchoWatch

	write       fabricWrite
	writes      uint64 // attempts of all writes
	writeFailed bool

	arrived         [256]uint64 // the newest probe that has arrived, by its number modulo 256
	rx, tx          [verbs.MaxFabricPaths]uint64
	peerDry, ownDry [verbs.MaxFabricPaths]uint64 // as the last echo left them
	limit           echoLimit
}

// fabricWrite is a write that is outstanding.
type fabricWrite struct {
	posted   int64 // 0: none is
	attempts int
	done     bool  // it is acknowledged, which is seen when it is due
	due      int64 // when something becomes of it
}

// writeAttempts is 1 and the retries of the native backend.
const writeAttempts = 7

// join connects a pair.
func (f *fabricEnd) join(p *fabricPair, peer *verbs.FabricPeer) {
	w := f.d.w
	p.peer = *peer
	p.next = w.clock() + int64(peer.First)
	p.ownDry = f.dry
	if p.offered == verbs.FabricAnswers {
		f.rcs.set(p.rc, peer.RC)
	}
	f.count.joined(p.place, peer.Session)
	if p.near = w.fabric.find(peer.UD[0], peer.QKey); p.near != nil {
		return
	}
	f.joins[peer.Host]++
	device, port := f.d.h.attr.Name, f.c.Port
	far := w.far(peer.Host, peer.Device, peer.Port)
	p.remote = &remote{
		far: far, peer: *peer,
		key:  w.key(device, port, f.joins[peer.Host], "way to "+peer.Host+" "+peer.Device),
		wire: f.d.h.ports[port-1].wire() * (1 + far.distance()),
	}
	for _, e := range w.ways {
		if e.leadsTo(device, port, peer.Host) {
			p.remote.ways = append(p.remote.ways, e)
		}
	}
}

// drop ends a pair, which may be nil.
func (f *fabricEnd) drop(p *fabricPair) {
	if p != nil {
		f.rcs.remove(p.rc)
	}
}

// step does what is due of a pair that probes.
func (p *fabricPair) step(now int64, active bool, s *sink) {
	if p.watch.CheckMissing(now, p.write.posted, p.writeFailed) {
		s.add(p, verbs.FabricMissing, now)
		s.amiss = true
	}
	if interval := int64(p.f.c.Interval); now >= p.next {
		p.probe(now, active, s)
		if p.write.posted == 0 && !p.writeFailed {
			p.post(now, active, s)
		}
		p.next += interval + (now-p.next)/interval*interval
	} else if p.watch.TakeMoreProbe(now) {
		p.probe(now, active, s)
	}
}

// probe sends a probe. What the port cannot send since it has no link, it loses.
func (p *fabricPair) probe(now int64, active bool, s *sink) {
	path := int(p.seq % uint64(len(p.peer.UD)))
	p.seq++
	sent := &p.sent[p.seq%uint64(len(p.sent))]
	sent.seq, sent.at = p.seq, now
	fact := s.add(p, verbs.FabricSent, now)
	fact.Path, fact.Seq = path, p.seq
	p.watch.NoteSent(p.seq, now)
	switch {
	case !active:
	case p.near != nil:
		p.near.inbox.deliver(datagram{at: now + nearby, from: p.f.ud[path], path: path, session: p.peer.Session, seq: p.seq})
	default:
		if echo, ok := p.remote.echo(path, p.seq, now); ok {
			p.f.inbox.put(echo)
		}
	}
}

// post posts a write.
func (p *fabricPair) post(now int64, active bool, s *sink) {
	p.write = fabricWrite{posted: now}
	s.add(p, verbs.FabricWrite, now)
	p.attempt(now, active)
}

// attempt sends the outstanding write, for the first time or again.
func (p *fabricPair) attempt(now int64, active bool) {
	p.write.attempts++
	p.writes++
	at, ok := now+2*nearby, false
	if p.near != nil {
		up, err := p.near.link()
		ok = up && err == nil && p.near.rcs.connected(p.peer.RC, p.rc)
	} else {
		at, ok = p.remote.acknowledge(p.writes|writeDraws, now)
	}
	if p.write.done = ok && active; !p.write.done {
		at = now + p.f.d.h.ackTimeout()
	}
	p.write.due = at
}

// retry does what is due of the outstanding write.
func (p *fabricPair) retry(active bool, s *sink) {
	switch w := p.write; {
	case w.done:
		p.finish(verbs.FabricWriteDone, "", s)
	case w.attempts == writeAttempts:
		p.finish(verbs.FabricWriteFailed, "retry_exc_err", s)
		p.writeFailed, s.amiss = true, true
	default:
		p.attempt(w.due, active)
	}
}

func (p *fabricPair) finish(kind verbs.FabricKind, status string, s *sink) {
	fact := s.add(p, kind, p.write.due)
	fact.Took, fact.Status = p.write.due-p.write.posted, status
	p.write = fabricWrite{}
}

// takeEcho takes an echo of a probe that is known, and reports whether it is one.
func (p *fabricPair) takeEcho(m *datagram, s *sink) bool {
	sent := &p.sent[m.seq%uint64(len(p.sent))]
	if m.seq == 0 || sent.seq != m.seq {
		return false
	}
	fact := s.add(p, verbs.FabricEcho, m.at)
	fact.Path, fact.Seq, fact.Received, fact.Posted, fact.Delay = m.path, m.seq, m.rx, m.tx, m.delay
	fact.Took = m.at - sent.at
	fact.Dry = m.dry != p.peerDry[m.path] || p.f.dry[m.path] != p.ownDry[m.path]
	sent.seq = 0 // a second echo of it is foreign
	p.peerDry[m.path], p.ownDry[m.path] = m.dry, p.f.dry[m.path]
	p.watch.NoteEcho(m.seq)
	return true
}

// isNew reports whether a probe arrives for the first time, and remembers it. A network may deliver a datagram twice.
func (p *fabricPair) isNew(seq uint64) bool {
	last := &p.arrived[seq%uint64(len(p.arrived))]
	if seq <= *last {
		return false
	}
	*last = seq
	return true
}

// answer echoes a probe of a peer, as long as it has not asked too often in this second. What it does not echo, it has
// received nevertheless.
func (p *fabricPair) answer(m *datagram, now int64) {
	p.rx[m.path]++
	if !p.limit.allows(now) {
		p.f.count.refused()
		return
	}
	p.tx[m.path]++
	p.f.count.echoed(p.place)
	if p.near != nil {
		p.near.inbox.deliver(datagram{
			at: now + nearby, echo: true, from: p.f.ud[m.path], path: m.path, session: m.session, seq: m.seq,
			rx: p.rx[m.path], tx: p.tx[m.path], dry: p.f.dry[m.path] - p.ownDry[m.path], delay: echoDelayMedian,
		})
	}
}

// hear takes the probes that a remote has sent by now.
func (p *fabricPair) hear(now int64, active bool) {
	for ; p.next <= now; p.next += int64(p.f.c.Interval) {
		path := int(p.seq % uint64(len(p.peer.UD)))
		p.seq++
		if at, ok := p.remote.probes(path, p.seq, p.next); ok && active {
			p.f.inbox.put(datagram{at: at, from: p.peer.UD[path], path: path, session: p.peer.Session, seq: p.seq})
		}
	}
}
