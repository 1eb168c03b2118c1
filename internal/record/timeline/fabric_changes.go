package timeline

import (
	"cmp"
	"time"

	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/telemetry/measure"
)

// fabricChanges remembers the last recorded verdicts on the pairs with other hosts and on the ports that probe them.
type fabricChanges struct {
	pairs map[pairKey]recordedPair
	ports map[portKey]recordedPortVerdict
}

// RegisterFabric is the Part for probes between hosts. Points that repeat a known verdict, as the points of an interval do, are
// nothing new.
func RegisterFabric(c *Changes) {
	h := &fabricChanges{map[pairKey]recordedPair{}, map[portKey]recordedPortVerdict{}}
	registerRecord(c, h.peerRecord)
	registerRecord(c, h.portRecord)
}

// pairKey identifies a pair by its own port and the host of the peer, regardless of the peer's device.
type pairKey struct {
	portKey
	host string
}

// recordedPortVerdict is the last recorded verdict on a port that probes other hosts.
type recordedPortVerdict struct {
	verdict verdict.Verdict // "": none yet
	began   time.Time
}

// recordedPair is the last recorded verdict or reason of a pair.
type recordedPair struct {
	word    string // the verdict, or else the reason
	began   time.Time
	resting bool // the pair is resting since (isResting)
	unmet   bool // word is a reason
}

// peerRecord returns a record when the verdict or the reason of a pair changes. It returns none for a pair that is resting. It
// returns none for the verdict starting either, unless the pair had met before, in which case the peer has new queues.
func (h *fabricChanges) peerRecord(p *measure.FabricPeer) (Record, bool) {
	key := pairKey{portKey{p.Device, p.Port}, p.PeerHost}
	last := h.pairs[key]
	word := cmp.Or(string(p.Verdict), string(p.Reason))
	switch {
	case isResting(p):
		last.resting = true
		h.pairs[key] = last
		return Record{}, false
	case p.Verdict == verdict.VerdictStarting && (last.word == "" || last.resting || last.unmet):
		return Record{}, false
	case word == last.word:
		last.resting = false
		h.pairs[key] = last
		return Record{}, false
	}
	began := p.At.Add(-time.Duration(p.AgeNS))
	h.pairs[key] = recordedPair{word: word, began: began, unmet: p.Verdict == ""}
	r := Record{Time: p.At, Kind: KindFabricPeer, Device: p.Device, Port: p.Port, Peer: NewPeer(p)}
	if r.Peer.Was = last.word; last.word != "" {
		r.Peer.LastedNS = durationNS(last.began, began)
	}
	return r, true
}

// isResting reports whether a point tells nothing about the peer: the pair has not been tried yet, or its state follows from
// the port of this host, which has a record of its own.
func isResting(p *measure.FabricPeer) bool {
	if p.Verdict != "" {
		return p.Verdict == verdict.VerdictOwnLink
	}
	row, _ := p.Reason.Row()
	return row.NotAboutPeer
}

// portRecord returns a record when the verdict on a port changes. The first verdict is recorded only if it is not ok.
func (h *fabricChanges) portRecord(p *measure.FabricPort) (Record, bool) {
	key := portKey{p.Device, p.Port}
	last := h.ports[key]
	if p.Verdict == last.verdict {
		return Record{}, false
	}
	began := p.At.Add(-time.Duration(p.VerdictAgeNS))
	h.ports[key] = recordedPortVerdict{p.Verdict, began}
	r := Record{Time: p.At, Kind: KindFabricPort, Device: p.Device, Port: p.Port, Fabric: &Fabric{
		Verdict: p.Verdict, Was: last.verdict, Pairs: p.Pairs, Met: p.PairsMet, List: p.List,
	}}
	if last.verdict == "" {
		return r, p.Verdict != verdict.VerdictOK
	}
	r.Fabric.LastedNS = durationNS(last.began, began)
	return r, true
}
