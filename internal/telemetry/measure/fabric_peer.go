package measure

import (
	"strconv"
	"time"

	"rdma_events/internal/fabric/pinglist"
	"rdma_events/internal/fabric/verdict"
)

// FabricPeer is a point of rdma_fabric_peer. It describes the pair of a port with a device of another host.
type FabricPeer struct {
	Device     string
	Port       int
	OwnGroup   string
	PeerHost   string
	PeerDevice string
	PeerGroup  string
	Scope      pinglist.Scope
	Verdict    verdict.Verdict // "": the two have not met
	Bad        bool            // the verdict blames the network, and the port itself does not have the verdict own_link
	AgeNS      int64           // of the verdict, or time that the two have not met
	SilentNS   int64           // since the first probe without an echo, if the verdict is about silence; for texts, not emitted
	Direction  string          // forward, reverse or both; "": not known
	Path       int             // index of the silent path; only with the verdict partial
	Probes     verdict.Counts  // of probes and writes, since the two met
	WriteNSP50 int64           // 0: no write was acknowledged in the window
	State      string          // of the peer's port, as its process reports it; "": not reported
	Reason     verdict.Reason  // why the two have not met
	At         time.Time
}

// Key implements Point.
func (p *FabricPeer) Key() Key {
	return Key{
		Measurement: fabricPeerTable.Name, Device: p.Device, Port: p.Port,
		Subject: joinTags(p.OwnGroup, p.PeerHost, p.PeerDevice, p.PeerGroup, string(p.Scope)),
	}
}

// Time implements Point.
func (p *FabricPeer) Time() time.Time { return p.At }

// Merge implements Point. The later point replaces this one; its counts include the counts of this one.
func (p *FabricPeer) Merge(later Point) { *p = *later.(*FabricPeer) }

// Clone implements Point.
func (p *FabricPeer) Clone() Point { return clone(p) }

// Events implements Point.
func (*FabricPeer) Events() uint64 { return 0 }

// Lines implements Point.
func (p *FabricPeer) Lines(add func(Line)) { add(fabricPeerTable.line(p)) }

var fabricPeerTable = table[FabricPeer]{
	Metric: Metric{
		Name:    "rdma_fabric_peer",
		Emitted: "on change, every interval while the verdict is not ok and the reason is not unsupported, and once in the following interval",
		Description: "The pair of a port of this host with a device of another host, if the pair has a fault or has just recovered. Only with " +
			"fabric.peers_file. Only the database, which has the points of all hosts, can tell which interface or group is at fault; the " +
			"dashboard RDMA fabric shows it.",
	},
	tags: []tag[FabricPeer]{
		requiredTag("device", "name of the RDMA device of this host", func(v *FabricPeer) string { return v.Device }),
		requiredTag("port", "number of the port of this host, from 1", func(v *FabricPeer) string { return strconv.Itoa(v.Port) }),
		requiredTag("own_group", ownGroupText, func(v *FabricPeer) string { return v.OwnGroup }),
		requiredTag("peer_host", "name of the peer's host in the peer list", func(v *FabricPeer) string { return v.PeerHost }),
		optionalTag("peer_device", "name of the peer's RDMA device; not before the peer has named it in a hello", func(v *FabricPeer) string { return v.PeerDevice }),
		requiredTag("peer_group", peerGroupText, func(v *FabricPeer) string { return v.PeerGroup }),
		requiredTag("scope", scopeText, func(v *FabricPeer) pinglist.Scope { return v.Scope }),
	},
	fields: []field[FabricPeer]{
		optionalText("verdict", "verdict on the pair, by whom it blames: "+blamesText()+"; not before the two have met",
			func(v *FabricPeer) verdict.Verdict { return v.Verdict }),
		boolInt("bad", "1 if the verdict blames the network: "+verdictsText(func(r *verdict.Row) bool { return r.Blames == verdict.BlameNetwork }),
			func(v *FabricPeer) bool { return v.Bad }),
		requiredInt("age_ns", "ns", "age of the verdict, or time that the two have not met", func(v *FabricPeer) int64 { return v.AgeNS }),
		optionalText("direction", "direction of the fault, if it is known: forward (to the peer), reverse or both",
			func(v *FabricPeer) string { return v.Direction }),
		optionalInt("path", "", "index of the silent path (the path of the write comes after the paths of the probes); only with the verdict partial",
			func(v *FabricPeer) (int64, bool) {
				return int64(v.Path), v.Verdict == verdict.VerdictPartial && v.Path >= 0
			}),
		counter("lost", "probes lost in the network since the two met, in both directions", func(v *FabricPeer) uint64 { return v.Probes.Lost() }),
		optionalInt("write_ns_p50", "ns", "time from the post of a write to its acknowledgement, p50 of the window",
			func(v *FabricPeer) (int64, bool) { return v.WriteNSP50, v.WriteNSP50 > 0 }),
		optionalText("state", "state of the peer's port, as its process last reported it", func(v *FabricPeer) string { return v.State }),
		optionalText("reason", "why the two have not met, if the cause is the peer: "+reasonsText(), func(v *FabricPeer) verdict.Reason { return v.Reason }),
	},
}
