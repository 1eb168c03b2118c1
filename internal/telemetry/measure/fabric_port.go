package measure

import (
	"slices"
	"strconv"
	"time"

	"rdma_events/internal/device/ledger"
	"rdma_events/internal/fabric/verdict"
)

// FabricPort is a point of rdma_fabric_port. It sums up all pairs of one port, and has the verdict on the port itself.
type FabricPort struct {
	Device   string
	Port     int
	OwnGroup string
	Role     string // verbs.RoleManagement if the port has this role, else ""
	FabricCounts
	FabricLatencies
	Verdict      verdict.Verdict // ok, own_port or own_link
	Bad          bool            // the verdict is own_link, which blames the link of the port
	VerdictAgeNS int64
	List         string // digest of the peer list
	FabricProberCounts
	At time.Time
}

// FabricProberCounts holds the counts of the prober of a port since the plugin started. Events = Acked + Unacked + Released.
type FabricProberCounts struct {
	ledger.FabricCounts
	Unacked  uint64 // read and not yet acknowledged by the running worker
	Released uint64 // freed without acknowledgement when a worker died
}

// addTo adds the pairs of the port to the sums of its host.
func (p *FabricPort) addTo(h *Host) {
	if h.Fabric == nil {
		h.Fabric = &HostFabric{}
	}
	h.Fabric.PairsBad += p.PairsBad
	h.Fabric.PortsBad += boolToInt(p.Bad)
	h.Fabric.PairsUnmet += p.Pairs - p.PairsMet
}

// Key implements Point.
func (p *FabricPort) Key() Key {
	return Key{Measurement: fabricPortTable.Name, Device: p.Device, Subject: p.OwnGroup, Port: p.Port}
}

// Time implements Point.
func (p *FabricPort) Time() time.Time { return p.At }

// Merge implements Point. The later point replaces this one; its counts include the counts of this one.
func (p *FabricPort) Merge(later Point) { *p = *later.(*FabricPort) }

// Clone implements Point.
func (p *FabricPort) Clone() Point { return clone(p) }

// Events implements Point. It returns 0, because the later point includes the counts of completion events.
func (*FabricPort) Events() uint64 { return 0 }

// Lines implements Point.
func (p *FabricPort) Lines(add func(Line)) { add(fabricPortTable.line(p)) }

var fabricPortTable = table[FabricPort]{
	Metric: Metric{
		Name:    "rdma_fabric_port",
		Emitted: onChange,
		Description: "Probes of one port with all of its peers, the verdict on the port itself, and the counts of its prober and responder. " +
			"Only with fabric.peers_file. " + paritySum + ", and events = acked + unacked + released.",
	},
	tags: []tag[FabricPort]{
		requiredTag("device", "name of the RDMA device", func(v *FabricPort) string { return v.Device }),
		requiredTag("port", "number of the port, from 1", func(v *FabricPort) string { return strconv.Itoa(v.Port) }),
		requiredTag("own_group", ownGroupText, func(v *FabricPort) string { return v.OwnGroup }),
		managementTag(func(v *FabricPort) string { return v.Role }),
	},
	fields: slices.Concat([]field[FabricPort]{
		optionalText("verdict", "verdict on the port itself: ok, "+portVerdictsText(), func(v *FabricPort) verdict.Verdict { return v.Verdict }),
		boolInt("bad", "1 if the verdict is own_link", func(v *FabricPort) bool { return v.Bad }),
		requiredInt("verdict_age_ns", "ns", "age of the verdict", func(v *FabricPort) int64 { return v.VerdictAgeNS }),
		optionalText("list", "digest of the peer list, equal on all hosts with the same list", func(v *FabricPort) string { return v.List }),
	},
		fabricCountFields(func(v *FabricPort) *FabricCounts { return &v.FabricCounts }),
		fabricLatencyFields(func(v *FabricPort) *FabricLatencies { return &v.FabricLatencies }),
		proberFields()),
}

func proberFields() []field[FabricPort] {
	return []field[FabricPort]{
		counter("events", "completion events read", func(v *FabricPort) uint64 { return v.FabricProberCounts.Events }),
		counter("acked", "completion events read and acknowledged", func(v *FabricPort) uint64 { return v.Acked }),
		requiredInt("unacked", "", "completion events read and not yet acknowledged", func(v *FabricPort) int64 { return clampToInt64(v.Unacked) }),
		counter("released", "completion events read and then freed without acknowledgement, because a worker died", func(v *FabricPort) uint64 { return v.Released }),
		counter("spurious", "completion events without a completion, which the verbs allow", func(v *FabricPort) uint64 { return v.Spurious }),
		counter("echoed", "echoes posted for peers", func(v *FabricPort) uint64 { return v.Echoed }),
		counter("refused", "probes of peers that were not echoed, because they exceeded twenty a second or no send was free",
			func(v *FabricPort) uint64 { return v.Refused }),
		counter("foreign", "datagrams that were ignored: from strangers, from ended sessions, not a probe, or a duplicate",
			func(v *FabricPort) uint64 { return v.Foreign }),
		counter("dry", "times all receives of a queue were used up; the probes lost then are in busy_lost",
			func(v *FabricPort) uint64 { return v.Dry }),
	}
}
