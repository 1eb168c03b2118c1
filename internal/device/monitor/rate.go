package monitor

import "rdma_events/internal/device/verbs"

// compareRates compares the rates of all ports of the host, and stores in each port the rate that the other ports suggest for it.
func compareRates(devices []*Device) {
	var all []verbs.ComparedPort
	var ports []*port // the port of each element of all
	for _, d := range devices {
		d.mu.Lock()
		for _, p := range d.ports {
			ports, all = append(ports, p), append(all, d.comparedPort(p))
		}
		d.mu.Unlock()
	}
	expected, at := verbs.ExpectedRates(all), 0
	for _, d := range devices {
		d.mu.Lock()
		for _, p := range d.ports {
			if at < len(ports) && ports[at] == p { // a port that was added meanwhile is compared next time
				p.comparedGbps = expected[at]
				at++
			}
		}
		d.mu.Unlock()
	}
}

// comparedPort returns the attributes by which a port is compared. The caller holds d.mu.
func (d *Device) comparedPort(p *port) verbs.ComparedPort {
	return verbs.ComparedPort{
		BoardID: d.attr.BoardID, VirtualFunction: d.attr.VirtualFunction, LinkLayer: p.attr.LinkLayer, Role: p.role.name,
		Active: p.answered && p.attr.State == verbs.PortActive, RateGbps: p.attr.RateGbps,
	}
}
