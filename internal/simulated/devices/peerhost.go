package devices

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"

	"rdma_events/internal/device/verbs"
)

// Peer is another host of the simulation. It has the devices of the profile, and is as the scenario says. It does not change, and
// its methods may be called concurrently.
type Peer struct {
	w    *World
	host string
}

// PeerPort is a port of a Peer at a moment.
type PeerPort struct {
	Device   string
	Position int // of the device among those of the host that probe, by name
	State    verbs.PortState
	Refuses  Refusal // of those that concern a port
	verbs.FabricPort
	RC uint32 // the number of its queue pairs for writes
}

// Peer returns the host of a name.
func (w *World) Peer(host string) *Peer { return &Peer{w, host} }

// Ports returns the ports of the host that can probe others, at a moment of CLOCK_MONOTONIC.
func (p *Peer) Ports(at int64) []PeerPort {
	var all []PeerPort
	for number, h := range p.w.hardware {
		for i := range h.ports {
			if h.ports[i].probesHosts() {
				all = append(all, p.port(number, i+1, &h.ports[i].portSpec, h.attr.Name, at))
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

// port returns the port of a device of a number.
func (p *Peer) port(number, port int, spec *portSpec, device string, at int64) PeerPort {
	far := p.w.far(p.host, device, port)
	q := PeerPort{Device: device, State: verbs.PortActive}
	if far.is(at, peerInactive) {
		q.State = verbs.PortDown
	}
	if e, _ := far.now(at, peerRefuses); e != nil {
		q.Refuses = e.reason
	}
	q.Port, q.LinkLayer, q.Epoch = port, spec.attr.LinkLayer, far.epoch(at)
	if q.Epoch == 0 {
		q.Reason = "the scenario says so"
		return q
	}
	n := far.numbers(q.Epoch)
	q.UD, q.QKey, q.RC, q.MTU, q.PKey = n.ud[:], n.qkey, n.rc, spec.attr.MTU, defaultPKey
	q.GIDs, q.LID = far.addresses(number, spec)
	return q
}

// addresses returns the GIDs of a port of the device of a number, and its LID.
func (p *far) addresses(number int, spec *portSpec) (all []verbs.FabricGID, lid int) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(p.host)) // a hash returns no error
	sum := h.Sum32()
	local := netip.MustParseAddr("fe80::200:ff:fe00:0").As16()
	binary.BigEndian.PutUint32(local[9:], sum)
	local[13], local[14], local[15] = 0xfe, byte(number), byte(p.port)
	if spec.attr.LinkLayer != verbs.LinkEthernet {
		const firstUnicast, unicasts = 1, 0xbfff
		return []verbs.FabricGID{{Raw: local}}, firstUnicast + int(p.w.key(p.device, p.port, 0, "LID of "+p.host)%unicasts)
	}
	mapped := netip.AddrFrom4([4]byte{10, 64 | byte(sum), byte(sum >> 8), byte(sum>>16)&^31 | byte(number)&31}).As16()
	return []verbs.FabricGID{{Index: 3, Raw: mapped}, {Index: 1, Raw: local}}, 0
}

// Down reports whether the host is off at a moment, or has no such plugin: nothing answers there.
func (p *Peer) Down(at int64) bool { return p.any().is(at, peerDown) }

// Answers returns the first moment, not earlier than at, when the host's process answers others. False: it never does.
func (p *Peer) Answers(at int64) (int64, bool) {
	at = p.any().after(at, peerStopped, peerDown)
	return at, at != never
}

// Refuses returns why the host refuses to talk at all at a moment, "" if it does not.
func (p *Peer) Refuses(at int64) Refusal {
	for _, e := range p.any().entries {
		if e.kind != peerRefuses || !refusals()[e.reason] {
			continue
		}
		if _, ok := e.active(at); ok {
			return e.reason
		}
	}
	return ""
}

// NextChange returns the first moment later than at when something of the host may change. False: there is none.
func (p *Peer) NextChange(at int64) (int64, bool) {
	next := int64(never)
	for i := range p.w.peers {
		if e := &p.w.peers[i]; matches(e.host, p.host) {
			next = min(next, e.edge(at))
		}
	}
	return next, next != never
}

// any returns a port of the host that is concerned by what concerns the host as a whole.
func (p *Peer) any() *far { return p.w.far(p.host, p.w.hardware[0].attr.Name, 1) }
