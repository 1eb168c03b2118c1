package health

import (
	"slices"
	"strings"
	"time"

	"rdma_events/internal/telemetry/measure"
)

// fabricPort judges the port's own link, the only part of the network between hosts that one host can judge by itself. Which other
// interface or group is at fault follows from what all hosts report, so the database is asked that.
func (k *Keeper) fabricPort(p *measure.FabricPort) {
	if v := k.portOf(p.Device, p.Port); v != nil {
		v.Fabric = &Fabric{p.Verdict, p.Pairs, p.PairsMet, p.PairsBad, p.PairsBusy, p.PairsDown}
	}
	k.fabricPairs(p, k.blackholes[portKey{p.Device, p.Port}])
}

// fabricPeer notes a pair of which the network passes nothing.
func (k *Keeper) fabricPeer(p *measure.FabricPeer) {
	if at := (portKey{p.Device, p.Port}); p.Bad && p.Verdict.IsBlackhole() {
		k.blackholes[at] = append(k.blackholes[at], p)
	}
}

// fabricPairs judges a port none of whose pairs is well, and that has too few to blame its own link, as in a cluster of two hosts. A
// port with a pair that is well says nothing: its peers are more likely at fault, and their hosts are not this one.
func (k *Keeper) fabricPairs(p *measure.FabricPort, blackholes []*measure.FabricPeer) {
	judged := p.PairsMet - p.PairsBusy - p.PairsDown
	if p.Bad || len(blackholes) == 0 || int64(len(blackholes)) < judged {
		return
	}
	since := p.At
	var peers []string
	for _, one := range blackholes {
		if began := one.At.Add(-time.Duration(one.AgeNS)); began.Before(since) {
			since = began
		}
		peers = append(peers, one.PeerHost)
	}
	slices.Sort(peers)
	a := k.judge.across("fabric-pair")
	k.report(p.Key(), []finding{k.judge.lasts(a, p.Key(), since, a.Text+": "+strings.Join(peers, ", "))})
}

// portOf returns a port of the status that is made, nil if it is not there.
func (k *Keeper) portOf(device string, number int) *Port {
	d := k.of(device)
	if d == nil {
		return nil
	}
	for i := range d.Ports {
		if d.Ports[i].Port == number {
			return &d.Ports[i]
		}
	}
	return nil
}
