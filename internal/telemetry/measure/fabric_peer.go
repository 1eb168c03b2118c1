package measure

import (
	"strconv"
	"time"

	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/fabric/verdict"
)

// FabricPeer is a point of rdma_fabric_peer: one pair of a port with a device of another host.
type FabricPeer struct {
	Device     string
	Port       int
	OwnGroup   string
	PeerHost   string
	PeerDevice string
	PeerGroup  string
	Scope      pinglist.Scope
	Verdict    verdict.Verdict // "": they have not met
	Bad        bool            // the network is blamed, and not the port's own link
	AgeNS      int64           // of the verdict, or since they have not met
	SilentNS   int64           // since the first probe without an echo, where the verdict is about silence; for people, and no field
	Direction  string          // forward, reverse or both; "": not known
	Path       int             // index of the path that is silent; only with the verdict partial
	Probes     verdict.Counts  // since they met, with the writes
	WriteNSP50 int64           // 0: no write was acknowledged in the window
	State      string          // what the peer's process says of its port; "": nothing
	Reason     verdict.Reason  // why they have not met
	At         time.Time
}

// Key implements Point.
func (p *FabricPeer) Key() Key {
	return Key{
		Measurement: fabricPeers.Name, Device: p.Device, Port: p.Port,
		Of: fabricOf(p.OwnGroup, p.PeerHost, p.PeerDevice, p.PeerGroup, string(p.Scope)),
	}
}

// Time implements Point.
func (p *FabricPeer) Time() time.Time { return p.At }

// Merge implements Point: the later one replaces this. Its Probes have those of this one in them.
func (p *FabricPeer) Merge(later Point) { *p = *later.(*FabricPeer) }

// Clone implements Point.
func (p *FabricPeer) Clone() Point { return clone(p) }

// Events implements Point.
func (*FabricPeer) Events() uint64 { return 0 }

// Lines implements Point.
func (p *FabricPeer) Lines(add func(Line)) { add(fabricPeers.line(p)) }

var fabricPeers = table[FabricPeer]{
	Metric: Metric{
		Name:    "rdma_fabric_peer",
		Emitted: "on change, every interval while the verdict is not ok and the reason is not unsupported, and once in the interval after",
		Description: "One pair of this host's port with a device of another host that is not well, or has just become so. Only with " +
			"fabric.peers_file. Which interface or group is at fault is a question to the database, which has all observers: the dashboard RDMA fabric asks it.",
	},
	tags: []tag[FabricPeer]{
		newTag("device", "name of the own RDMA device", func(v *FabricPeer) string { return v.Device }),
		newTag("port", "number of the own port, from 1", func(v *FabricPeer) string { return strconv.Itoa(v.Port) }),
		newTag("own_group", ownGroupText, func(v *FabricPeer) string { return v.OwnGroup }),
		newTag("peer_host", "name of the peer's host in the list", func(v *FabricPeer) string { return v.PeerHost }),
		maybeTag("peer_device", "name of the peer's RDMA device; not before a hello has named it", func(v *FabricPeer) string { return v.PeerDevice }),
		newTag("peer_group", peerGroupText, func(v *FabricPeer) string { return v.PeerGroup }),
		newTag("scope", scopeText, func(v *FabricPeer) pinglist.Scope { return v.Scope }),
	},
	fields: []field[FabricPeer]{
		text("verdict", "what is said of the pair, from the worst to the mildest: it blames "+blamesText()+"; not while they have not met",
			func(v *FabricPeer) verdict.Verdict { return v.Verdict }),
		yesNo("bad", "1 when the network is blamed: "+verdictsText(func(r *verdict.Row) bool { return r.Blames == verdict.BlameNetwork }),
			func(v *FabricPeer) bool { return v.Bad }),
		integer("age_ns", "ns", "how long that has been so", func(v *FabricPeer) int64 { return v.AgeNS }),
		text("direction", "forward (to the peer), reverse or both; where it is known", func(v *FabricPeer) string { return v.Direction }),
		maybe("path", "", "index of the path that is silent, the write's after those of the probes; only with partial",
			func(v *FabricPeer) (int64, bool) {
				return int64(v.Path), v.Verdict == verdict.VerdictPartial && v.Path >= 0
			}),
		counter("lost", "probes lost in the network since they met, in both directions", func(v *FabricPeer) uint64 { return v.Probes.Lost() }),
		maybe("write_ns_p50", "ns", "from the post of a write to its acknowledgement, p50 of the window",
			func(v *FabricPeer) (int64, bool) { return v.WriteNSP50, v.WriteNSP50 > 0 }),
		text("state", "what the peer's process said last of its port", func(v *FabricPeer) string { return v.State }),
		text("reason", "why they have not met, where it is the peer: "+reasonsText(), func(v *FabricPeer) verdict.Reason { return v.Reason }),
	},
}
