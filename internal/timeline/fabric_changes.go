package timeline

import (
	"cmp"
	"time"

	"rdma_events/internal/fabric"
	"rdma_events/internal/measure"
)

// pairKey is a pair, whichever device of the peer it is with.
type pairKey struct {
	portKey
	host string
}

// portVerdict is the last verdict on a port that probes other hosts.
type portVerdict struct {
	verdict fabric.Verdict // "": none yet
	began   time.Time
}

// said is what was said last of a pair.
type said struct {
	word  string // the verdict, else the reason
	began time.Time
	rests bool // the pair does not say so any more, and nothing new yet
	unmet bool // word is a reason
}

// ofFabric is Of for the points of probes between hosts. The points of an interval say again what is known.
func (c *Changes) ofFabric(p measure.Point) (Record, bool) {
	switch p := p.(type) {
	case *measure.FabricPeer:
		return c.fabricPeer(p)
	case *measure.FabricPort:
		return c.fabricPort(p)
	}
	return Record{}, false
}

// fabricPeer is news when the verdict or the reason is another one. That a pair has not been tried yet is none, nor what
// follows from the own port, which has a record. Nor is that it has just met, unless it was met before: then the peer has
// new queues.
func (c *Changes) fabricPeer(p *measure.FabricPeer) (Record, bool) {
	key := pairKey{portKey{p.Device, p.Port}, p.PeerHost}
	last := c.pairs[key]
	word := cmp.Or(string(p.Verdict), string(p.Reason))
	switch {
	case rests(p):
		last.rests = true
		c.pairs[key] = last
		return Record{}, false
	case p.Verdict == fabric.VerdictStarting && (last.word == "" || last.rests || last.unmet):
		return Record{}, false
	case word == last.word:
		last.rests = false
		c.pairs[key] = last
		return Record{}, false
	}
	began := p.At.Add(-time.Duration(p.AgeNS))
	c.pairs[key] = said{word: word, began: began, unmet: p.Verdict == ""}
	r := Record{Time: p.At, Kind: KindFabricPeer, Device: p.Device, Port: p.Port, Peer: NewPeer(p)}
	if r.Peer.Was = last.word; last.word != "" {
		r.Peer.LastedNS = max(0, int64(began.Sub(last.began)))
	}
	return r, true
}

// rests reports whether a point says nothing of the peer.
func rests(p *measure.FabricPeer) bool {
	if p.Verdict != "" {
		return p.Verdict == fabric.VerdictOwnLink
	}
	row, _ := p.Reason.Row()
	return row.Rests
}

// fabricPort is news when the verdict is another one, and at first where it is not well.
func (c *Changes) fabricPort(p *measure.FabricPort) (Record, bool) {
	key := portKey{p.Device, p.Port}
	last := c.fabrics[key]
	if p.Verdict == last.verdict {
		return Record{}, false
	}
	began := p.At.Add(-time.Duration(p.VerdictAgeNS))
	c.fabrics[key] = portVerdict{p.Verdict, began}
	r := Record{Time: p.At, Kind: KindFabricPort, Device: p.Device, Port: p.Port, Fabric: &Fabric{
		Verdict: p.Verdict, Was: last.verdict, Pairs: p.Pairs, Met: p.PairsMet, List: p.List,
	}}
	if last.verdict == "" {
		return r, p.Verdict != fabric.VerdictOK
	}
	r.Fabric.LastedNS = max(0, int64(began.Sub(last.began)))
	return r, true
}
