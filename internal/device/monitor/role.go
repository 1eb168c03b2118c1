package monitor

import (
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

// roleLimit is how long a port that carries the default route waits for the other devices to be opened.
const roleLimit = 30 * time.Second

// role is the role of a port. It is a tag, and so it is decided once, when the port is first known, and kept. Device.mu guards it.
type role struct {
	name    string // "": none
	decided bool
	waiting int64 // CLOCK_MONOTONIC ns since when the port has been known to carry the default route, and waits for the other ports
}

// management returns verbs.RoleManagement if the port has this role, else "".
func (r *role) management() string {
	if r.name == verbs.RoleManagement {
		return r.name
	}
	return ""
}

// tagOf returns the value of the tag of what belongs to a port, and whether it is known yet. The caller holds d.mu.
func (d *Device) tagOf(number int) (role string, known bool) {
	for _, p := range d.ports {
		if p.port == number {
			return p.role.management(), !p.role.awaited()
		}
	}
	return "", true
}

// awaited reports whether the port has no points yet because its role is not known.
func (r *role) awaited() bool { return !r.decided && r.waiting != 0 }

// begin handles the first answer of a port. Only one that carries the default route waits for the other ports.
func (r *role) begin(netdev string, carries func(netdev string) bool, mono int64) {
	switch {
	case r.decided || r.waiting != 0:
	case netdev != "" && carries(netdev):
		r.waiting = max(1, mono)
	default:
		r.decided = true
	}
}

// decide makes the port one for management if another port is known to be faster, and else gives it no role once the others are known.
func (r *role) decide(faster, othersKnown bool, mono int64) {
	if faster {
		r.name = verbs.RoleManagement
	}
	r.decided = faster || othersKnown || mono-r.waiting >= int64(roleLimit)
}

// decideRoles decides the roles of the ports that wait for the others.
func decideRoles(devices []*Device, t *moment) {
	waiting, known := false, true
	fastest := 0.0
	for _, d := range devices {
		d.mu.Lock()
		known = known && (d.opens > 0 || !d.present || d.released || d.reason == status.ReasonUnwatchable)
		for _, p := range d.ports {
			waiting = waiting || p.role.awaited()
			fastest = max(fastest, p.attr.RateGbps, p.bestGbps)
		}
		d.mu.Unlock()
	}
	if !waiting {
		return
	}
	for _, d := range devices {
		d.mu.Lock()
		for _, p := range d.ports {
			if p.role.awaited() {
				p.role.decide(fastest > max(p.attr.RateGbps, p.bestGbps), known, t.mono)
			}
		}
		d.mu.Unlock()
	}
}
