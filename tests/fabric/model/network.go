package model

// background is the share of packets that every path loses, congestion that of an uplink that is congested. A path crosses two uplinks,
// and all faults lose more.
const (
	background = 1e-5
	congestion = 0.01
)

// network is the fabric of a plan: the share of packets that each of its parts loses.
type network struct {
	out, in      [Hosts]float64
	leaf         [Groups]float64
	uplink       [Groups][Spines]float64
	off, stopped [Hosts]bool
}

func newNetwork(p *Plan) *network {
	n := &network{}
	for _, c := range p.Congested {
		n.uplink[c[0]][c[1]] = congestion
	}
	for _, f := range p.Faults {
		switch f.Kind {
		case NICDead, NICLoss:
			n.out[f.At], n.in[f.At] = f.Loss, f.Loss
		case NICLossOne:
			if f.Out {
				n.out[f.At] = f.Loss
			} else {
				n.in[f.At] = f.Loss
			}
		case UplinkDead, UplinkLoss:
			n.uplink[f.At][f.Spine] = f.Loss
		case LeafDead:
			n.leaf[f.At] = f.Loss
		}
	}
	for _, h := range p.Off {
		n.off[h] = true
	}
	for _, h := range p.Stopped {
		n.stopped[h] = true
	}
	return n
}

// arrives returns the share of a flow's packets that arrive. A flow takes one spine all the time.
func (n *network) arrives(from, to int, flow uint64) float64 {
	share := (1 - background) * (1 - n.out[from]) * (1 - n.in[to]) * (1 - n.leaf[from/Size])
	if from/Size == to/Size {
		return share
	}
	spine := spineOf(from, to, flow)
	return share * (1 - n.leaf[to/Size]) * (1 - n.uplink[from/Size][spine]) * (1 - n.uplink[to/Size][spine])
}

// worst returns the greatest share of packets that is lost on a path between two hosts, in one direction.
func (n *network) worst(from, to int) float64 {
	arrive := min(n.arrives(from, to, writeFlow), n.arrives(to, from, ackFlow))
	for i := range uint64(paths) {
		arrive = min(arrive, n.arrives(from, to, i), n.arrives(to, from, echoFlows+i))
	}
	return 1 - arrive
}

// spineOf returns the spine that the switches choose for a flow, by a hash (ECMP). It is the finalizer of SplitMix64.
func spineOf(from, to int, flow uint64) int {
	x := uint64(from)<<40 | uint64(to)<<16 | flow
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return int((x ^ x>>31) % Spines)
}
