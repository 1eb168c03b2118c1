package doctor

import "rdma_events/internal/device/verbs"

// peerRate returns the rate in Gbit/s that a port should have according to the other ports of its board type, or 0 if
// these do not tell.
func (x *examination) peerRate(device string, port int) float64 {
	return x.rates[portSubject(device, port)]
}

// configuredRate returns the minimum rate in Gbit/s that the configuration requires of a port, or 0.
func (x *examination) configuredRate(device string, port int) float64 {
	if x.plugin.ExpectedRate == nil {
		return 0
	}
	return x.plugin.ExpectedRate(device, port)
}

// compareRates compares the rates of the ports with each other, as the plugin does, and stores the results for
// peerRate.
func (x *examination) compareRates() {
	var subjects []string
	var all []verbs.ComparedPort
	for i := range x.devices {
		d := &x.devices[i]
		for _, port := range d.ports {
			p := verbs.ComparedPort{BoardID: d.BoardID, VirtualFunction: d.VirtualFunction, Active: x.portState(d.Name, port) == "ACTIVE"}
			p.LinkLayer = verbs.LinkEthernet
			if x.portAttr(d.Name, port, "link_layer") == "InfiniBand" {
				p.LinkLayer = verbs.LinkInfiniBand
			}
			p.RateGbps = x.Sysfs.RateOr(d.Name, port, 0)
			p.Role = x.configuredRole(d.Name, port)
			subjects, all = append(subjects, portSubject(d.Name, port)), append(all, p)
		}
	}
	x.assignManagementRole(all)
	x.rates = map[string]float64{}
	for i, rate := range verbs.ExpectedRates(all) {
		x.rates[subjects[i]] = rate
	}
}

// configuredRole returns the configured role of a port, or "".
func (x *examination) configuredRole(device string, port int) string {
	if x.plugin.Role == nil {
		return ""
	}
	return x.plugin.Role(device, port)
}

// assignManagementRole assigns the role management to each port without a role that carries a default route of the host
// and is slower than another watched port. all contains the ports in the order of the devices.
func (x *examination) assignManagementRole(all []verbs.ComparedPort) {
	fastest := 0.0
	for i := range all {
		fastest = max(fastest, all[i].RateGbps)
	}
	at := 0
	for i := range x.devices {
		d := &x.devices[i]
		for _, port := range d.ports {
			p := &all[at]
			at++
			if p.Role == "" && p.RateGbps < fastest && x.carriesDefaultRoute(d.Name, port) {
				p.Role = verbs.RoleManagement
			}
		}
	}
}

func (x *examination) carriesDefaultRoute(device string, port int) bool {
	netdev := x.findNetDev(device, x.Sysfs.PortNetDev(device, port))
	return netdev != "" && x.CarriesDefaultRoute != nil && x.CarriesDefaultRoute(netdev)
}
