package measure

import (
	"slices"
	"strconv"
	"time"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/fabric/verdict"
)

// FabricPort is a point of rdma_fabric_port: all pairs of one port, and what is said of the port itself.
type FabricPort struct {
	Device   string
	Port     int
	OwnGroup string
	Role     string // verbs.RoleManagement if the port has this role, else ""
	FabricCounts
	FabricLatencies
	Verdict      verdict.Verdict // ok, own_port or own_link
	Bad          bool            // the port's own link is blamed: own_link
	VerdictAgeNS int64
	List         string // the digest of the list of hosts
	FabricLane
	At time.Time
}

// FabricLane are the counts of the prober of a port, since the plugin started. Events = Acked + Unacked + Released.
type FabricLane struct {
	ledger.FabricCounts
	Unacked  uint64 // read and not yet acknowledged by the running worker
	Released uint64 // freed unacknowledged when a worker died
}

// addTo adds the pairs of the port to the sums of its host.
func (p *FabricPort) addTo(h *Host) {
	if h.Fabric == nil {
		h.Fabric = &HostFabric{}
	}
	h.Fabric.PairsBad += p.PairsBad
	h.Fabric.PortsBad += bit(p.Bad)
	h.Fabric.PairsUnmet += p.Pairs - p.PairsMet
}

// Key implements Point.
func (p *FabricPort) Key() Key {
	return Key{Measurement: fabricPorts.Name, Device: p.Device, Of: p.OwnGroup, Port: p.Port}
}

// Time implements Point.
func (p *FabricPort) Time() time.Time { return p.At }

// Merge implements Point: the later one replaces this. Its counts have those of this one in them.
func (p *FabricPort) Merge(later Point) { *p = *later.(*FabricPort) }

// Clone implements Point.
func (p *FabricPort) Clone() Point { return clone(p) }

// Events implements Point. The counts of completion events are those of the later point.
func (*FabricPort) Events() uint64 { return 0 }

// Lines implements Point.
func (p *FabricPort) Lines(add func(Line)) { add(fabricPorts.line(p)) }

var fabricPorts = table[FabricPort]{
	Metric: Metric{
		Name:    "rdma_fabric_port",
		Emitted: onChange,
		Description: "Probes of one port with all of its peers, what follows for the port itself, and what its prober and responder do. " +
			"Only with fabric.peers_file. " + paritySum + ", and events = acked + unacked + released.",
	},
	tags: []tag[FabricPort]{
		newTag("device", "name of the RDMA device", func(v *FabricPort) string { return v.Device }),
		newTag("port", "number of the port, from 1", func(v *FabricPort) string { return strconv.Itoa(v.Port) }),
		newTag("own_group", ownGroupText, func(v *FabricPort) string { return v.OwnGroup }),
		managementTag(func(v *FabricPort) string { return v.Role }),
	},
	fields: slices.Concat([]field[FabricPort]{
		text("verdict", "what is said of the port itself: ok, "+portVerdictsText(), func(v *FabricPort) verdict.Verdict { return v.Verdict }),
		yesNo("bad", "1 with own_link", func(v *FabricPort) bool { return v.Bad }),
		integer("verdict_age_ns", "ns", "how long the verdict has held", func(v *FabricPort) int64 { return v.VerdictAgeNS }),
		text("list", "digest of the list of hosts: equal on all hosts that have the same list", func(v *FabricPort) string { return v.List }),
	},
		fabricCountRows(func(v *FabricPort) *FabricCounts { return &v.FabricCounts }),
		fabricLatencyRows(func(v *FabricPort) *FabricLatencies { return &v.FabricLatencies }),
		laneRows()),
}

func laneRows() []field[FabricPort] {
	return []field[FabricPort]{
		counter("events", "completion events read", func(v *FabricPort) uint64 { return v.FabricLane.Events }),
		counter("acked", "of these, acknowledged", func(v *FabricPort) uint64 { return v.Acked }),
		integer("unacked", "", "of these, not yet acknowledged", func(v *FabricPort) int64 { return clip(v.Unacked) }),
		counter("released", "of these, freed unacknowledged by a worker's death", func(v *FabricPort) uint64 { return v.Released }),
		counter("spurious", "events without a completion, which is legal", func(v *FabricPort) uint64 { return v.Spurious }),
		counter("echoed", "echoes posted for peers", func(v *FabricPort) uint64 { return v.Echoed }),
		counter("refused", "probes of peers that were not echoed, above twenty a second or without a free send",
			func(v *FabricPort) uint64 { return v.Refused }),
		counter("foreign", "datagrams of strangers, of sessions that are over, of no probe, and those that arrive a second time",
			func(v *FabricPort) uint64 { return v.Foreign }),
		counter("dry", "times that all receives of a queue were used up: what was lost then is in busy_lost",
			func(v *FabricPort) uint64 { return v.Dry }),
	}
}
