package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// The fabric: leaves with hosts, each host with one network interface. Every leaf has an uplink to every spine.
const (
	Groups = 50
	Size   = 20 // hosts of a group, which is a leaf
	Spines = 8
	Hosts  = Groups * Size
)

// Kind is a kind of fault.
type Kind string

// The kinds of faults.
const (
	NICDead    Kind = "nic_dead"    // an interface neither sends nor receives
	NICLoss    Kind = "nic_loss"    // an interface loses 5 to 30 % in both directions
	NICLossOne Kind = "nic_loss_1"  // an interface loses 5 to 30 % in one direction
	UplinkDead Kind = "uplink_dead" // one uplink of a leaf carries nothing
	UplinkLoss Kind = "uplink_loss" // one uplink of a leaf loses 30 to 70 %
	LeafDead   Kind = "leaf_dead"   // a leaf forwards nothing
)

// Kinds are all kinds of faults.
func Kinds() []Kind { return []Kind{NICDead, NICLoss, NICLossOne, UplinkDead, UplinkLoss, LeafDead} }

// IsGroups reports whether the fault is one of a group, not of an interface.
func (k Kind) IsGroups() bool { return k == UplinkDead || k == UplinkLoss || k == LeafDead }

// Fault is a planted fault.
type Fault struct {
	Kind  Kind
	At    int     // the host, or the group
	Spine int     // of an uplink
	Loss  float64 // the share of lost packets
	Out   bool    // NICLossOne: the host loses what it sends, not what it receives
}

// Suspect returns what has to be suspected for the fault.
func (f Fault) Suspect() string {
	if f.Kind.IsGroups() {
		return GroupName(f.At)
	}
	return HostName(f.At)
}

// HostName returns the name of a host. Its order is that of the numbers.
func HostName(host int) string { return fmt.Sprintf("h%04d", host) }

// GroupName returns the name of a group.
func GroupName(group int) string { return fmt.Sprintf("g%02d", group) }

// Plan is one run: the faults, and what is no fault of the network.
type Plan struct {
	Faults    []Fault
	Congested [][2]int // uplinks, by group and spine, that lose 1 %
	Off       []int    // hosts that are off
	Stopped   []int    // hosts whose process is stopped
}

// The numbers of a plan.
const (
	mostFaults = 5
	congested  = Groups * Spines / 10
	idle       = 20 // hosts off, and as many stopped
)

// Planned returns the plan of a seed. The same seed has the same plan on every machine.
func Planned(seed uint64) Plan {
	r := rand.New(rand.NewPCG(seed, 0))
	var p Plan
	for range 1 + r.IntN(mostFaults) {
		if f := drawFault(r); p.takes(f) {
			p.Faults = append(p.Faults, f)
		}
	}
	for range congested {
		p.Congested = append(p.Congested, [2]int{r.IntN(Groups), r.IntN(Spines)})
	}
	sound := func() (hosts []int) {
		for range idle {
			if h := r.IntN(Hosts); !slices.ContainsFunc(p.Faults, func(f Fault) bool { return !f.Kind.IsGroups() && f.At == h }) {
				hosts = append(hosts, h)
			}
		}
		return hosts
	}
	p.Off, p.Stopped = sound(), sound()
	return p
}

func drawFault(r *rand.Rand) Fault {
	f := Fault{Kind: Kinds()[r.IntN(len(Kinds()))], Loss: 1}
	if f.Kind.IsGroups() {
		f.At, f.Spine = r.IntN(Groups), r.IntN(Spines)
	} else {
		f.At = r.IntN(Hosts)
	}
	switch f.Kind {
	case NICLoss, NICLossOne:
		f.Loss = 0.05 + 0.25*r.Float64()
		f.Out = r.IntN(2) == 0
	case UplinkLoss:
		f.Loss = 0.3 + 0.4*r.Float64()
	}
	return f
}

// takes reports whether a fault can be distinguished from those that the plan has: a group has either a fault of its own or faults of
// its hosts.
func (p *Plan) takes(f Fault) bool {
	return !slices.ContainsFunc(p.Faults, func(other Fault) bool {
		switch {
		case f.Kind.IsGroups() && other.Kind.IsGroups(), !f.Kind.IsGroups() && !other.Kind.IsGroups():
			return f.At == other.At
		case f.Kind.IsGroups():
			return f.At == other.At/Size
		}
		return f.At/Size == other.At
	})
}
