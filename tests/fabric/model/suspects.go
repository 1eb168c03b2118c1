package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/fabric/verdict"
)

// Pair is two hosts, the first of which pings the second.
type Pair struct{ From, To int }

func (p Pair) across() bool { return p.From/Size != p.To/Size }

// Fabric is who pings whom.
type Fabric struct {
	pings [Hosts][]int
}

// peers is how many hosts each one pings.
const peers = 8

// New returns the fabric, whose pairs are those of the list.
func New() (*Fabric, error) {
	var text strings.Builder
	for h := range Hosts {
		fmt.Fprintln(&text, HostName(h), GroupName(h/Size))
	}
	list, err := pinglist.ParseList(strings.NewReader(text.String()))
	if err != nil {
		return nil, fmt.Errorf("parse the model's list: %w", err)
	}
	numbers := map[string]int{}
	for h := range Hosts {
		numbers[HostName(h)] = h
	}
	f := &Fabric{}
	for h := range Hosts {
		for _, p := range list.Pings(HostName(h), peers) {
			f.pings[h] = append(f.pings[h], numbers[p.Name])
		}
	}
	return f, nil
}

// Outcome is what the hosts say at the end of a run. A host that is off or stopped says nothing.
type Outcome struct {
	Verdicts map[Pair]verdict.Verdict
	OwnLink  [Hosts]bool // the host blames its own link, and none of its peers
}

// Run simulates a minute with a plan. The same seed and plan have the same outcome.
func (f *Fabric) Run(seed uint64, p *Plan) *Outcome {
	r := rand.New(rand.NewPCG(seed, 1))
	n := newNetwork(p)
	o := &Outcome{Verdicts: map[Pair]verdict.Verdict{}}
	for from, pinged := range f.pings {
		if n.off[from] || n.stopped[from] {
			continue
		}
		var within, across []verdict.PeerVerdict
		for _, to := range pinged {
			pair, said := Pair{from, to}, verdict.PeerVerdict{Host: HostName(to), Verdict: n.judged(r, from, to)}
			o.Verdicts[pair] = said.Verdict
			if pair.across() {
				across = append(across, said)
			} else {
				within = append(within, said)
			}
		}
		o.OwnLink[from] = verdict.JudgePort(true, within, across...) == verdict.VerdictOwnLink
	}
	return o
}

// Suspect is what the questions to the database name.
type Suspect struct {
	Name      string
	Direction string // "in" or "out" of an interface that loses in one direction; else ""
}

// Suspects answers the two questions as the databases do: an interface is suspected by two observers of its own group, a group
// by more than a quarter of its own pairs across, of two hosts or more with two hosts or more. It also returns interfaces whose
// hosts blame their own links. The alerts report these hosts by fabric-own-link instead.
func (o *Outcome) Suspects() []Suspect {
	var observers, in, out [Hosts]int
	var across, bad [Groups]int
	var near, far [Groups]map[int]bool
	for g := range Groups {
		near[g], far[g] = map[int]bool{}, map[int]bool{}
	}
	for p, v := range o.Verdicts {
		switch {
		case p.across() && (v.IsNetwork() || v == verdict.VerdictOK):
			g := p.From / Size
			across[g]++
			if v.IsNetwork() {
				bad[g]++
				near[g][p.From], far[g][p.To] = true, true
			}
		case !p.across() && v.IsNetwork() && !o.OwnLink[p.From]:
			observers[p.To]++
			switch v {
			case verdict.VerdictLossyForward:
				in[p.To]++
			case verdict.VerdictLossyReverse:
				out[p.To]++
			}
		}
	}
	var all []Suspect
	for h := range Hosts {
		if observers[h] >= 2 {
			all = append(all, Suspect{HostName(h), lossDirection(in[h], out[h])})
		}
	}
	for g := range Groups {
		if 4*bad[g] > across[g] && len(near[g]) >= 2 && len(far[g]) >= 2 {
			all = append(all, Suspect{Name: GroupName(g)})
		}
	}
	return all
}

func lossDirection(in, out int) string {
	switch {
	case in > out:
		return "in"
	case out > in:
		return "out"
	}
	return ""
}

// Score counts what was suspected rightly, wrongly and not at all.
type Score struct {
	True, False, Missed int
	Directed, Direction int // faults in one direction that were found, and those whose direction was said

	Verdicts  int // network verdicts of pairs
	Congested int // of these, those of pairs that lose packets by congestion only, on some of their paths
	Unfounded int // of these, those of pairs that lose no more than the background
	OwnLinks  int // ports that blame their own link
	Innocent  int // of these, those whose interface and leaf are well
}

// Blame counts the network verdicts of a run, and those that blame what is well.
func (s *Score) Blame(p *Plan, o *Outcome) {
	n := newNetwork(p)
	for pair, v := range o.Verdicts {
		if !v.IsNetwork() {
			continue
		}
		s.Verdicts++
		switch lost := n.worst(pair.From, pair.To); {
		case lost < congestion:
			s.Unfounded++
		case lost < 2*congestion:
			s.Congested++
		}
	}
	for host, blames := range o.OwnLink {
		if blames {
			s.OwnLinks++
			if n.out[host]+n.in[host]+n.leaf[host/Size] == 0 {
				s.Innocent++
			}
		}
	}
}

// Add adds a run.
func (s *Score) Add(p *Plan, found []Suspect) (missed []Fault, wrong []Suspect) {
	for _, f := range p.Faults {
		i := slices.IndexFunc(found, func(s Suspect) bool { return s.Name == f.Suspect() })
		if i < 0 {
			s.Missed++
			missed = append(missed, f)
			continue
		}
		s.True++
		if f.Kind == NICLossOne {
			s.Directed++
			if (found[i].Direction == "out") == f.Out && found[i].Direction != "" {
				s.Direction++
			}
		}
	}
	for _, it := range found {
		if !slices.ContainsFunc(p.Faults, func(f Fault) bool { return f.Suspect() == it.Name }) {
			s.False++
			wrong = append(wrong, it)
		}
	}
	return missed, wrong
}

// Precision returns the share of the suspects that were faults, in percent.
func (s *Score) Precision() float64 { return 100 * float64(s.True) / float64(s.True+s.False) }

// Recall returns the share of the faults that were suspected, in percent.
func (s *Score) Recall() float64 { return 100 * float64(s.True) / float64(s.True+s.Missed) }
