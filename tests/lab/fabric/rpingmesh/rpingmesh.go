// Package rpingmesh judges probes as R-Pingmesh does ("R-Pingmesh: A Service-Aware RoCE Network Monitoring and Diagnostic
// System", SIGCOMM 2024), to compare its judgement with that of the fabric under the same faults. It is written from the
// paper's description, and pure. What the paper takes from elsewhere is left out, in its favour: a host that is down and
// one whose queue pairs are new have no probes here.
package rpingmesh

import (
	"cmp"
	"slices"
	"time"
)

// Period is how long the analyzer collects probes before it judges them, and Timeout how long a probe waits for its answers.
const (
	Period  = 20 * time.Second
	Timeout = 500 * time.Millisecond
)

// rnicShare is the share of the probes to an RNIC, from its own leaf, that have to time out before the RNIC is blamed and not
// the switches.
const rnicShare = 0.1

// Probe is what became of a probe.
type Probe struct {
	From, To int
	Leaf     bool // both are in one leaf
	Sent     time.Time
	TimedOut bool
	RTT      time.Duration // that the formula calls the network's
}

// Why is what the network is blamed for.
type Why string

// The reasons.
const (
	RNIC    Why = "RNIC"     // a tenth of the probes from its own leaf timed out
	Switch  Why = "switch"   // other probes timed out
	HighRTT Why = "high RTT" // the period's 99th percentile of the network RTT is above the threshold
)

// Blame is that the network, and with RNIC the interface of the host To, is blamed in a period.
type Blame struct {
	Period   int // from 0
	To       int
	Why      Why
	Sent     int
	TimedOut int
	P99      time.Duration
}

// Judge judges the probes to each host in each Period since began. A network RTT above the threshold is too long.
func Judge(probes []Probe, began time.Time, threshold time.Duration) []Blame {
	type key struct{ period, to int }
	sorted := map[key][]Probe{}
	for _, p := range probes {
		if n := p.Sent.Sub(began); n >= 0 {
			k := key{int(n / Period), p.To}
			sorted[k] = append(sorted[k], p)
		}
	}
	var all []Blame
	for k, some := range sorted {
		b := judgeProbes(some, threshold)
		b.Period, b.To = k.period, k.to
		if b.Why != "" {
			all = append(all, b)
		}
	}
	slices.SortFunc(all, func(a, b Blame) int { return cmp.Or(cmp.Compare(a.Period, b.Period), cmp.Compare(a.To, b.To)) })
	return all
}

// judgeProbes returns the blame that follows from the probes to one host in one period.
func judgeProbes(probes []Probe, threshold time.Duration) Blame {
	b := Blame{Sent: len(probes)}
	var leaf, leafTimedOut int
	var rtts []time.Duration
	for _, p := range probes {
		if p.Leaf {
			leaf++
		}
		if !p.TimedOut {
			rtts = append(rtts, p.RTT)
			continue
		}
		b.TimedOut++
		if p.Leaf {
			leafTimedOut++
		}
	}
	b.P99 = Percentile(rtts, 99)
	switch {
	case leaf > 0 && float64(leafTimedOut) > rnicShare*float64(leaf):
		b.Why = RNIC
	case b.TimedOut > 0:
		b.Why = Switch
	case b.P99 > threshold:
		b.Why = HighRTT
	}
	return b
}

// Percentile returns the nearest rank of a percentage from 1 to 100, 0 of nothing.
func Percentile(d []time.Duration, percentage int) time.Duration {
	if len(d) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(d))
	return sorted[(len(sorted)*percentage+99)/100-1]
}
