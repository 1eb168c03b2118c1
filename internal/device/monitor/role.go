package monitor

import (
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

// roleLimit is the time for which a port that carries the default route waits for the other devices to be opened.
const roleLimit = 30 * time.Second

// role is the role of a port. Since it is a tag, it is decided once, when the port is first known, and kept. Device.mu guards it.
type role struct {
	name    string // "": none
	decided bool
	waiting int64 // when the port began to wait for the other ports because it carries the default route, CLOCK_MONOTONIC ns; 0: it does not
}

// tag returns the value of the tag role: verbs.RoleManagement if the port has this role, else "".
func (r *role) tag() string {
	if r.name == verbs.RoleManagement {
		return r.name
	}
	return ""
}

// roleTag returns the value of the tag role for points about a port, and whether it is known yet. The caller holds d.mu.
func (d *Device) roleTag(number int) (role string, known bool) {
	for _, p := range d.ports {
		if p.port == number {
			return p.role.tag(), !p.role.isPending()
		}
	}
	return "", true
}

// isPending reports whether the role is undecided. The port then has no points yet.
func (r *role) isPending() bool { return !r.decided && r.waiting != 0 }

// startDeciding handles the first answer of a port: a port that carries the default route waits for the other ports, any other has
// no role.
func (r *role) startDeciding(netdev string, carries func(netdev string) bool, mono int64) {
	switch {
	case r.decided || r.waiting != 0:
	case netdev != "" && carries(netdev):
		r.waiting = max(1, mono)
	default:
		r.decided = true
	}
}

// decide gives the port the role management if another port is faster, or no role once all other ports are known or roleLimit has passed.
func (r *role) decide(faster, othersKnown bool, mono int64) {
	if faster {
		r.name = verbs.RoleManagement
	}
	r.decided = faster || othersKnown || mono-r.waiting >= int64(roleLimit)
}

// decideRoles decides the roles of the ports that wait for the other ports.
func decideRoles(devices []*Device, t *moment) {
	waiting, known := false, true
	fastest := 0.0
	for _, d := range devices {
		d.mu.Lock()
		known = known && (d.opens > 0 || !d.present || d.released || d.reason == status.ReasonUnwatchable)
		for _, p := range d.ports {
			waiting = waiting || p.role.isPending()
			fastest = max(fastest, d.usualRate(p))
		}
		d.mu.Unlock()
	}
	if !waiting {
		return
	}
	for _, d := range devices {
		d.mu.Lock()
		for _, p := range d.ports {
			if p.role.isPending() {
				p.role.decide(fastest > d.usualRate(p), known, t.mono)
			}
		}
		d.mu.Unlock()
	}
}

// usualRate returns the highest rate in Gbit/s that the port has, had before, or is configured to have. A port whose link has trained at
// a lower rate must not be taken for a management port. The caller holds d.mu.
func (d *Device) usualRate(p *port) float64 {
	remembered, _ := d.cfg.Memory.Port(d.name, p.port)
	configured, _ := d.cfg.Configured(d.name, p.port)
	return max(p.attr.RateGbps, p.bestGbps, remembered, configured)
}
