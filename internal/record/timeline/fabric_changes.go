package timeline

import (
	"cmp"
	"time"

	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/telemetry/measure"
)

// hosts remembers what was said last of the pairs with other hosts, and of the ports that probe them.
type hosts struct {
	pairs map[pairKey]said
	ports map[portKey]portVerdict
}

// OfFabric is the Part of probes between hosts. The points of an interval say again what is known.
func OfFabric(c *Changes) {
	h := &hosts{map[pairKey]said{}, map[portKey]portVerdict{}}
	register(c, h.peer)
	register(c, h.port)
}

// pairKey is a pair, whichever device of the peer it is with.
type pairKey struct {
	portKey
	host string
}

// portVerdict is the last verdict on a port that probes other hosts.
type portVerdict struct {
	verdict verdict.Verdict // "": none yet
	began   time.Time
}

// said is what was said last of a pair.
type said struct {
	word  string // the verdict, else the reason
	began time.Time
	rests bool // the pair does not say so any more, and nothing new yet
	unmet bool // word is a reason
}

// peer is news when the verdict or the reason is another one. That a pair has not been tried yet is none, nor what
// follows from the own port, which has a record. Nor is that it has just met, unless it was met before: then the peer has
// new queues.
func (h *hosts) peer(p *measure.FabricPeer) (Record, bool) {
	key := pairKey{portKey{p.Device, p.Port}, p.PeerHost}
	last := h.pairs[key]
	word := cmp.Or(string(p.Verdict), string(p.Reason))
	switch {
	case rests(p):
		last.rests = true
		h.pairs[key] = last
		return Record{}, false
	case p.Verdict == verdict.VerdictStarting && (last.word == "" || last.rests || last.unmet):
		return Record{}, false
	case word == last.word:
		last.rests = false
		h.pairs[key] = last
		return Record{}, false
	}
	began := p.At.Add(-time.Duration(p.AgeNS))
	h.pairs[key] = said{word: word, began: began, unmet: p.Verdict == ""}
	r := Record{Time: p.At, Kind: KindFabricPeer, Device: p.Device, Port: p.Port, Peer: NewPeer(p)}
	if r.Peer.Was = last.word; last.word != "" {
		r.Peer.LastedNS = max(0, int64(began.Sub(last.began)))
	}
	return r, true
}

// rests reports whether a point says nothing of the peer.
func rests(p *measure.FabricPeer) bool {
	if p.Verdict != "" {
		return p.Verdict == verdict.VerdictOwnLink
	}
	row, _ := p.Reason.Row()
	return row.NotAboutPeer
}

// port is news when the verdict is another one, and at first where it is not well.
func (h *hosts) port(p *measure.FabricPort) (Record, bool) {
	key := portKey{p.Device, p.Port}
	last := h.ports[key]
	if p.Verdict == last.verdict {
		return Record{}, false
	}
	began := p.At.Add(-time.Duration(p.VerdictAgeNS))
	h.ports[key] = portVerdict{p.Verdict, began}
	r := Record{Time: p.At, Kind: KindFabricPort, Device: p.Device, Port: p.Port, Fabric: &Fabric{
		Verdict: p.Verdict, Was: last.verdict, Pairs: p.Pairs, Met: p.PairsMet, List: p.List,
	}}
	if last.verdict == "" {
		return r, p.Verdict != verdict.VerdictOK
	}
	r.Fabric.LastedNS = max(0, int64(began.Sub(last.began)))
	return r, true
}
