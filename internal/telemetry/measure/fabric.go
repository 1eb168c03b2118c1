package measure

import (
	"slices"
	"strings"
	"time"

	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/telemetry/aggregate"
)

// Fabric is a point of rdma_fabric: the pairs of all devices of the host with the hosts of one group.
type Fabric struct {
	OwnGroup  string
	PeerGroup string
	Scope     pinglist.Scope
	FabricCounts
	FabricLatencies
	At time.Time
}

// FabricCounts counts some pairs, and their probes and writes. The numbers of pairs are those of now, as is Pending, and all
// others count since the plugin started: those of pairs that are no more stay in them.
type FabricCounts struct {
	Pairs     int64
	PairsMet  int64
	PairsBad  int64 // the network is blamed
	PairsBusy int64
	PairsDown int64
	verdict.Counts
}

// Add adds the counts of other pairs.
func (c *FabricCounts) Add(o *FabricCounts) {
	c.Pairs += o.Pairs
	c.PairsMet += o.PairsMet
	c.PairsBad += o.PairsBad
	c.PairsBusy += o.PairsBusy
	c.PairsDown += o.PairsDown
	c.Counts.Add(&o.Counts)
}

// FabricLatencies are those of the window, in ns. What has Count 0 is not known, nor is its greatest.
type FabricLatencies struct {
	EchoP      aggregate.Percentiles // from the post of a probe to its echo, without the peer's delay
	EchoMax    int64
	ResponderP aggregate.Percentiles // from a probe's arrival at the peer to the post of its echo
	WriteP     aggregate.Percentiles // from the post of a write to its acknowledgement by the peer's NIC
	WriteMax   int64
}

// Key implements Point.
func (f *Fabric) Key() Key {
	return Key{Measurement: fabrics.Name, Of: fabricOf(f.OwnGroup, f.PeerGroup, string(f.Scope))}
}

// Time implements Point.
func (f *Fabric) Time() time.Time { return f.At }

// Merge implements Point: the later one replaces this. Its counts have those of this one in them.
func (f *Fabric) Merge(later Point) { *f = *later.(*Fabric) }

// Clone implements Point.
func (f *Fabric) Clone() Point { return clone(f) }

// Events implements Point.
func (*Fabric) Events() uint64 { return 0 }

// Lines implements Point.
func (f *Fabric) Lines(add func(Line)) { add(fabrics.line(f)) }

// fabricOf joins tags for Key.Of. No tag of the list of hosts has a line's end in it.
func fabricOf(tags ...string) string { return strings.Join(tags, "\n") }

// These describe tags of several measurements of the fabric.
const (
	ownGroupText  = "group of this host in the list of hosts: its rack, leaf or rail domain"
	peerGroupText = "group of the peers in the list"
	scopeText     = "group (the peers are in the own group) or across"
)

// paritySum is how the counts of probes add up.
const paritySum = "sent = answered + forward_lost + reverse_lost + busy_lost + unknown_lost + pending"

var fabrics = table[Fabric]{
	Metric: Metric{
		Name:    "rdma_fabric",
		Emitted: everyInterval,
		Description: "Probes between this host and the hosts of a group, of all devices together: a UD datagram that the peer's " +
			"process sends back (echo), and an RDMA write of no bytes that the peer's NIC acknowledges (write). Only with " +
			"fabric.peers_file. " + paritySum + ". Frames have 66 to 110 bytes, so that faults of large ones go unseen.",
	},
	tags: []tag[Fabric]{
		newTag("own_group", ownGroupText, func(v *Fabric) string { return v.OwnGroup }),
		newTag("peer_group", peerGroupText, func(v *Fabric) string { return v.PeerGroup }),
		newTag("scope", scopeText, func(v *Fabric) pinglist.Scope { return v.Scope }),
	},
	fields: slices.Concat(fabricCountRows(func(v *Fabric) *FabricCounts { return &v.FabricCounts }),
		fabricLatencyRows(func(v *Fabric) *FabricLatencies { return &v.FabricLatencies })),
}

func fabricCountRows[V any](of func(*V) *FabricCounts) []field[V] {
	now := func(name, description string, value func(*FabricCounts) int64) field[V] {
		return integer(name, "", description, func(v *V) int64 { return value(of(v)) })
	}
	count := func(name, description string, value func(*FabricCounts) uint64) field[V] {
		return counter(name, description, func(v *V) uint64 { return value(of(v)) })
	}
	return []field[V]{
		now("pairs", "pairs that this host probes, or would; not those whose peer has no device for them", func(c *FabricCounts) int64 { return c.Pairs }),
		now("pairs_met", "of these, those whose peer has answered a hello", func(c *FabricCounts) int64 { return c.PairsMet }),
		now("pairs_bad", "of these, those for which the network is blamed; not those of a port with own_link",
			func(c *FabricCounts) int64 { return c.PairsBad }),
		now("pairs_busy", "of these, those with peer_busy", func(c *FabricCounts) int64 { return c.PairsBusy }),
		now("pairs_down", "of these, those with peer_down or peer_port", func(c *FabricCounts) int64 { return c.PairsDown }),
		count("sent", "probes sent", func(c *FabricCounts) uint64 { return c.Sent }),
		count("answered", "of these, those whose echo came", func(c *FabricCounts) uint64 { return c.Answered }),
		count("forward_lost", "of these, lost on the way to the peer", func(c *FabricCounts) uint64 { return c.ForwardLost }),
		count("reverse_lost", "of these, those whose echo was lost on the way back", func(c *FabricCounts) uint64 { return c.ReverseLost }),
		count("busy_lost", "of these, lost while a receive queue was used up here or there, or refused: not the network",
			func(c *FabricCounts) uint64 { return c.BusyLost }),
		count("unknown_lost", "of these, those whose pair ended before it was known, as when a worker dies",
			func(c *FabricCounts) uint64 { return c.UnknownLost }),
		now("pending", "of these, neither answered nor proved lost yet", func(c *FabricCounts) int64 { return clip(c.Pending) }),
		count("writes", "writes posted", func(c *FabricCounts) uint64 { return c.Writes }),
		count("writes_ok", "of these, acknowledged by the peer's NIC", func(c *FabricCounts) uint64 { return c.WritesOK }),
		count("writes_late", "of these, acknowledged after the ACK timeout: the NIC had to retry", func(c *FabricCounts) uint64 { return c.WritesLate }),
		count("write_errors", "writes that ended in an error", func(c *FabricCounts) uint64 { return c.WriteErrors }),
		count("reconnects", "times that the queue pair of the writes was connected again", func(c *FabricCounts) uint64 { return c.Reconnects }),
	}
}

func fabricLatencyRows[V any](of func(*V) *FabricLatencies) []field[V] {
	one := func(name, description string, value func(*FabricLatencies) (ns, count int64)) field[V] {
		return maybe(name, "ns", description+" of the window", func(v *V) (int64, bool) {
			ns, count := value(of(v))
			return ns, count > 0
		})
	}
	return []field[V]{
		one("echo_ns_p50", "echo without the peer's delay, p50", func(l *FabricLatencies) (int64, int64) { return l.EchoP.P50, l.EchoP.Count }),
		one("echo_ns_p99", "the same, p99", func(l *FabricLatencies) (int64, int64) { return l.EchoP.P99, l.EchoP.Count }),
		one("echo_ns_max", "the same, greatest", func(l *FabricLatencies) (int64, int64) { return l.EchoMax, l.EchoP.Count }),
		one("responder_ns_p50", "from a probe's arrival at the peer to the post of its echo, p50",
			func(l *FabricLatencies) (int64, int64) { return l.ResponderP.P50, l.ResponderP.Count }),
		one("responder_ns_p99", "the same, p99", func(l *FabricLatencies) (int64, int64) { return l.ResponderP.P99, l.ResponderP.Count }),
		one("write_ns_p50", "from the post of a write to its acknowledgement, without the peer's CPU, p50",
			func(l *FabricLatencies) (int64, int64) { return l.WriteP.P50, l.WriteP.Count }),
		one("write_ns_p90", "the same, p90", func(l *FabricLatencies) (int64, int64) { return l.WriteP.P90, l.WriteP.Count }),
		one("write_ns_p99", "the same, p99", func(l *FabricLatencies) (int64, int64) { return l.WriteP.P99, l.WriteP.Count }),
		one("write_ns_max", "the same, greatest", func(l *FabricLatencies) (int64, int64) { return l.WriteMax, l.WriteP.Count }),
	}
}
