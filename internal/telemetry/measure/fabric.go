package measure

import (
	"slices"
	"strings"
	"time"

	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/fabric/verdict"
	"rdma_events/internal/telemetry/aggregate"
)

// Fabric is a point of rdma_fabric. It sums up the pairs of all devices of the host with the hosts of one group.
type Fabric struct {
	OwnGroup  string
	PeerGroup string
	Scope     pinglist.Scope
	FabricCounts
	FabricLatencies
	At time.Time
}

// FabricCounts counts a set of pairs, and their probes and writes. The numbers of pairs and Pending are current values. All
// other counts are cumulative since the plugin started, and include the counts of pairs that no longer exist.
type FabricCounts struct {
	Pairs     int64
	PairsMet  int64
	PairsBad  int64 // pairs whose verdict blames the network
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

// FabricLatencies holds the latencies of the window, in ns. Percentiles with Count 0 are not known, and neither is the
// corresponding maximum.
type FabricLatencies struct {
	EchoP      aggregate.Percentiles // from the post of a probe to its echo, without the peer's delay
	EchoMax    int64
	ResponderP aggregate.Percentiles // from the arrival of a probe at the peer to the post of its echo
	WriteP     aggregate.Percentiles // from the post of a write to its acknowledgement by the peer's NIC
	WriteMax   int64
}

// Key implements Point.
func (f *Fabric) Key() Key {
	return Key{Measurement: fabricTable.Name, Subject: joinTags(f.OwnGroup, f.PeerGroup, string(f.Scope))}
}

// Time implements Point.
func (f *Fabric) Time() time.Time { return f.At }

// Merge implements Point. The later point replaces this one; its counts include the counts of this one.
func (f *Fabric) Merge(later Point) { *f = *later.(*Fabric) }

// Clone implements Point.
func (f *Fabric) Clone() Point { return clone(f) }

// Events implements Point.
func (*Fabric) Events() uint64 { return 0 }

// Lines implements Point.
func (f *Fabric) Lines(add func(Line)) { add(fabricTable.line(f)) }

// joinTags joins tags for Key.Subject. No tag from the peer list contains a line feed.
func joinTags(tags ...string) string { return strings.Join(tags, "\n") }

// Descriptions of tags that several measurements of the fabric have.
const (
	ownGroupText  = "group of this host in the peer list: its rack, leaf or rail domain"
	peerGroupText = "group of the peers in the peer list"
	scopeText     = "group (the peers are in the group of this host) or across (they are in another group)"
)

// paritySum is the equation that the counts of probes fulfil.
const paritySum = "sent = answered + forward_lost + reverse_lost + busy_lost + unknown_lost + pending"

var fabricTable = table[Fabric]{
	Metric: Metric{
		Name:    "rdma_fabric",
		Emitted: everyInterval,
		Description: "Probes between this host and the hosts of a group, for all devices together. A probe is a UD datagram that the " +
			"peer's process sends back (echo). A write is an RDMA write of zero bytes that the peer's NIC acknowledges. Only with " +
			"fabric.peers_file. " + paritySum + ". Frames have 66 to 110 bytes, so faults that affect only large frames go unnoticed.",
	},
	tags: []tag[Fabric]{
		requiredTag("own_group", ownGroupText, func(v *Fabric) string { return v.OwnGroup }),
		requiredTag("peer_group", peerGroupText, func(v *Fabric) string { return v.PeerGroup }),
		requiredTag("scope", scopeText, func(v *Fabric) pinglist.Scope { return v.Scope }),
	},
	fields: slices.Concat(fabricCountFields(func(v *Fabric) *FabricCounts { return &v.FabricCounts }),
		fabricLatencyFields(func(v *Fabric) *FabricLatencies { return &v.FabricLatencies })),
}

func fabricCountFields[V any](countsOf func(*V) *FabricCounts) []field[V] {
	now := func(name, description string, value func(*FabricCounts) int64) field[V] {
		return requiredInt(name, "", description, func(v *V) int64 { return value(countsOf(v)) })
	}
	count := func(name, description string, value func(*FabricCounts) uint64) field[V] {
		return counter(name, description, func(v *V) uint64 { return value(countsOf(v)) })
	}
	return []field[V]{
		now("pairs", "pairs that this host probes or wants to probe; not pairs whose peer has no device for them", func(c *FabricCounts) int64 { return c.Pairs }),
		now("pairs_met", "pairs whose peer has answered a hello", func(c *FabricCounts) int64 { return c.PairsMet }),
		now("pairs_bad", "pairs whose verdict blames the network; not the pairs of a port with the verdict own_link",
			func(c *FabricCounts) int64 { return c.PairsBad }),
		now("pairs_busy", "pairs with the verdict peer_busy", func(c *FabricCounts) int64 { return c.PairsBusy }),
		now("pairs_down", "pairs with the verdict peer_down or peer_port", func(c *FabricCounts) int64 { return c.PairsDown }),
		count("sent", "probes sent", func(c *FabricCounts) uint64 { return c.Sent }),
		count("answered", "probes whose echo arrived", func(c *FabricCounts) uint64 { return c.Answered }),
		count("forward_lost", "probes lost on the forward path", func(c *FabricCounts) uint64 { return c.ForwardLost }),
		count("reverse_lost", "probes whose echo was lost on the way back", func(c *FabricCounts) uint64 { return c.ReverseLost }),
		count("busy_lost", "probes lost while a receive queue of either side was exhausted, or refused by the peer; the network is not at fault",
			func(c *FabricCounts) uint64 { return c.BusyLost }),
		count("unknown_lost", "probes whose pair ended before the outcome was known, for example because a worker died",
			func(c *FabricCounts) uint64 { return c.UnknownLost }),
		now("pending", "probes that are neither answered nor proved lost yet", func(c *FabricCounts) int64 { return clampToInt64(c.Pending) }),
		count("writes", "writes posted", func(c *FabricCounts) uint64 { return c.Writes }),
		count("writes_ok", "writes acknowledged by the peer's NIC", func(c *FabricCounts) uint64 { return c.WritesOK }),
		count("writes_late", "writes acknowledged after the ACK timeout, so that the NIC had to retry", func(c *FabricCounts) uint64 { return c.WritesLate }),
		count("write_errors", "writes that ended in an error", func(c *FabricCounts) uint64 { return c.WriteErrors }),
		count("reconnects", "times the queue pair of the writes was reconnected", func(c *FabricCounts) uint64 { return c.Reconnects }),
	}
}

func fabricLatencyFields[V any](latenciesOf func(*V) *FabricLatencies) []field[V] {
	one := func(name, description string, value func(*FabricLatencies) (ns, count int64)) field[V] {
		return optionalInt(name, "ns", description+" of the window", func(v *V) (int64, bool) {
			ns, count := value(latenciesOf(v))
			return ns, count > 0
		})
	}
	return []field[V]{
		one("echo_ns_p50", "time from the post of a probe to its echo, without the delay at the peer, p50",
			func(l *FabricLatencies) (int64, int64) { return l.EchoP.P50, l.EchoP.Count }),
		one("echo_ns_p99", "time from the post of a probe to its echo, without the delay at the peer, p99",
			func(l *FabricLatencies) (int64, int64) { return l.EchoP.P99, l.EchoP.Count }),
		one("echo_ns_max", "time from the post of a probe to its echo, without the delay at the peer, maximum",
			func(l *FabricLatencies) (int64, int64) { return l.EchoMax, l.EchoP.Count }),
		one("responder_ns_p50", "time from the arrival of a probe at the peer to the post of its echo, p50",
			func(l *FabricLatencies) (int64, int64) { return l.ResponderP.P50, l.ResponderP.Count }),
		one("responder_ns_p99", "time from the arrival of a probe at the peer to the post of its echo, p99",
			func(l *FabricLatencies) (int64, int64) { return l.ResponderP.P99, l.ResponderP.Count }),
		one("write_ns_p50", "time from the post of a write to its acknowledgement, in which the peer's CPU has no part, p50",
			func(l *FabricLatencies) (int64, int64) { return l.WriteP.P50, l.WriteP.Count }),
		one("write_ns_p90", "time from the post of a write to its acknowledgement, in which the peer's CPU has no part, p90",
			func(l *FabricLatencies) (int64, int64) { return l.WriteP.P90, l.WriteP.Count }),
		one("write_ns_p99", "time from the post of a write to its acknowledgement, in which the peer's CPU has no part, p99",
			func(l *FabricLatencies) (int64, int64) { return l.WriteP.P99, l.WriteP.Count }),
		one("write_ns_max", "time from the post of a write to its acknowledgement, in which the peer's CPU has no part, maximum",
			func(l *FabricLatencies) (int64, int64) { return l.WriteMax, l.WriteP.Count }),
	}
}
