package health

import (
	"slices"
	"strings"
	"time"

	"rdma_events/internal/telemetry/measure"
)

// addFabricPort adds the summary of a port's pairs and judges them. The port's own link is the only part of the network
// that one host can judge by itself. Alerts about other interfaces or groups compare the reports of all hosts, in the
// database.
func (k *Keeper) addFabricPort(p *measure.FabricPort) {
	if v := k.findPort(p.Device, p.Port); v != nil {
		v.Fabric = &Fabric{p.Verdict, p.Pairs, p.PairsMet, p.PairsBad, p.PairsBusy, p.PairsDown}
	}
	k.judgeFabricPairs(p, k.blackholes[portKey{p.Device, p.Port}])
}

// collectBlackhole remembers a pair whose packets the network swallows.
func (k *Keeper) collectBlackhole(p *measure.FabricPeer) {
	if at := (portKey{p.Device, p.Port}); p.Bad && p.Verdict.IsBlackhole() {
		k.blackholes[at] = append(k.blackholes[at], p)
	}
}

// judgeFabricPairs reports a port if none of its pairs is well and it has too few pairs to blame its own link, as in a
// cluster of two hosts. If at least one pair is well, the fault is more likely at a peer, and the peer's host reports
// it.
func (k *Keeper) judgeFabricPairs(p *measure.FabricPort, blackholes []*measure.FabricPeer) {
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
	a := k.judge.acrossSeriesAlert("fabric-pair")
	k.reportFindings(p.Key(), []finding{k.judge.judgeAcross(a, p.Key(), since, a.Text+": "+strings.Join(peers, ", "))})
}

// findPort returns a port of the current status, or nil if it does not exist.
func (k *Keeper) findPort(device string, number int) *Port {
	d := k.findDevice(device)
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
