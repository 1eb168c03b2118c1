package devices

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"

	"rdma_events/internal/device/verbs"
)

// Peer is another host of the simulation, with the devices of the profile and the conditions of the scenario. It is immutable, and its
// methods may be called concurrently.
type Peer struct {
	w    *World
	host string
}

// PeerPort describes a port of a Peer at one time.
type PeerPort struct {
	Device   string
	Position int // index of the device among the probing devices of the host, sorted by name
	State    verbs.PortState
	Refuses  Refusal // a Refusal that concerns a port
	verbs.FabricPort
	RC uint32 // number of its queue pair for writes
}

// Peer returns the host with a name.
func (w *World) Peer(host string) *Peer { return &Peer{w, host} }

// Ports returns the ports of the host that can probe other hosts, at a time of CLOCK_MONOTONIC.
func (p *Peer) Ports(at int64) []PeerPort {
	var all []PeerPort
	for number, h := range p.w.hardware {
		for i := range h.ports {
			if h.ports[i].probesHosts() {
				all = append(all, p.portAt(number, i+1, &h.ports[i].portSpec, h.attr.Name, at))
			}
		}
	}
	slices.SortStableFunc(all, func(a, b PeerPort) int { return strings.Compare(a.Device, b.Device) })
	for i := range all {
		switch {
		case i == 0:
		case all[i].Device == all[i-1].Device:
			all[i].Position = all[i-1].Position
		default:
			all[i].Position = all[i-1].Position + 1
		}
	}
	return all
}

// portAt returns a port of the device with a number.
func (p *Peer) portAt(number, port int, spec *portSpec, device string, at int64) PeerPort {
	far := p.w.remotePort(p.host, device, port)
	q := PeerPort{Device: device, State: verbs.PortActive}
	if far.hasActive(at, peerInactive) {
		q.State = verbs.PortDown
	}
	if e, _ := far.activeEntry(at, peerRefuses); e != nil {
		q.Refuses = e.reason
	}
	q.Port, q.LinkLayer, q.Epoch = port, spec.attr.LinkLayer, far.epochAt(at)
	if q.Epoch == 0 {
		q.Reason = "the scenario says so"
		return q
	}
	n := far.numbersOf(q.Epoch)
	q.UD, q.QKey, q.RC, q.MTU, q.PKey = n.ud[:], n.qkey, n.rc, spec.attr.MTU, defaultPKey
	q.GIDs, q.LID = far.addresses(number, spec)
	return q
}

// addresses returns the GIDs and the LID of a port of the device with a number.
func (p *remotePort) addresses(number int, spec *portSpec) (all []verbs.FabricGID, lid int) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(p.host)) // a hash returns no error
	sum := h.Sum32()
	local := netip.MustParseAddr("fe80::200:ff:fe00:0").As16()
	binary.BigEndian.PutUint32(local[9:], sum)
	local[13], local[14], local[15] = 0xfe, byte(number), byte(p.port)
	if spec.attr.LinkLayer != verbs.LinkEthernet {
		const firstUnicast, unicasts = 1, 0xbfff
		return []verbs.FabricGID{{Raw: local}}, firstUnicast + int(p.w.randomSeed(p.device, p.port, 0, "LID of "+p.host)%unicasts)
	}
	mapped := netip.AddrFrom4([4]byte{10, 64 | byte(sum), byte(sum >> 8), byte(sum>>16)&^31 | byte(number)&31}).As16()
	return []verbs.FabricGID{{Index: 3, Raw: mapped}, {Index: 1, Raw: local}}, 0
}

// IsDown reports whether the host is off or has no plugin at a time, so that nothing answers.
func (p *Peer) IsDown(at int64) bool { return p.anyPort().hasActive(at, peerDown) }

// Answers returns the first time, not earlier than at, at which the host's process answers. It returns false if there is none.
func (p *Peer) Answers(at int64) (int64, bool) {
	at = p.anyPort().firstWithout(at, peerStopped, peerDown)
	return at, at != never
}

// Refuses returns the reason why the host refuses all conversations at a time, or "" if it does not refuse.
func (p *Peer) Refuses(at int64) Refusal {
	for _, e := range p.anyPort().entries {
		if e.kind != peerRefuses || !allRefusals()[e.reason] {
			continue
		}
		if _, ok := e.active(at); ok {
			return e.reason
		}
	}
	return ""
}

// NextChange returns the first time after at at which a condition of the host may change. It returns false if there is none.
func (p *Peer) NextChange(at int64) (int64, bool) {
	next := int64(never)
	for i := range p.w.peers {
		if e := &p.w.peers[i]; matchesGlob(e.host, p.host) {
			next = min(next, e.edge(at))
		}
	}
	return next, next != never
}

// anyPort returns a port of the host for entries that concern the host as a whole.
func (p *Peer) anyPort() *remotePort { return p.w.remotePort(p.host, p.w.hardware[0].attr.Name, 1) }
