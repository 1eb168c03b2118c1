package doctor

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"rdma_events/internal/agent/advice"
	"rdma_events/internal/device/verbs"
)

// probesHosts reports whether a device takes part in probes between hosts.
func (x *examination) probesHosts(d *device) bool {
	return x.fabric != nil && x.fabric.IncludesDevice(d.Name) && !isIWARP(d)
}

// isIWARP reports whether a device is iWARP. Such a device has no datagrams, so it cannot probe other hosts.
func isIWARP(d *device) bool { return d.Transport == "iwarp" }

// checkFabricPorts reports how many ports probe other hosts.
func checkFabricPorts(x *examination) []Result {
	r := Result{Check: "fabric_ports"}
	var active []string
	ports, iwarp := 0, 0
	for i := range x.devices {
		d := &x.devices[i]
		if isIWARP(d) && x.fabric.IncludesDevice(d.Name) {
			iwarp++
		}
		if !x.probesHosts(d) {
			continue
		}
		for _, port := range d.ports {
			ports++
			if x.portState(d.Name, port) == "ACTIVE" {
				active = append(active, fmt.Sprintf("%s:%d", d.Name, port))
			}
		}
	}
	switch {
	case len(x.devices) == 0:
		r.Status, r.Text = Skipped, "there is no device"
	case ports == 0 && iwarp > 0:
		r.Status, r.Text, r.Fix = Warn, "all devices use iWARP, with which other hosts are not probed", x.editConfig()
	case ports == 0:
		r.Status, r.Text, r.Fix = Warn, "fabric.devices matches none of the devices that are watched", x.editConfig()
	case len(active) == 0:
		r.Status, r.Text = Warn, fmt.Sprintf("none of %d ports is active, so no host is probed", ports)
		r.Fix = x.command(advice.ShowRDMALinks)
	default:
		r.Text = fmt.Sprintf("%d of %d ports are active: %s", len(active), ports, strings.Join(active, ", "))
	}
	return []Result{r}
}

// checkFabricAddresses checks the addresses by which active ports reach the ports of other hosts.
func checkFabricAddresses(x *examination) (results []Result) {
	for i := range x.devices {
		d := &x.devices[i]
		for _, port := range d.ports {
			if x.probesHosts(d) && x.portState(d.Name, port) == "ACTIVE" {
				r := x.checkFabricAddress(d, port)
				r.Check, r.Subject = "fabric_addresses", portSubject(d.Name, port)
				results = append(results, r)
			}
		}
	}
	return results
}

func (x *examination) checkFabricAddress(d *device, port int) Result {
	if x.portAttr(d.Name, port, "link_layer") == "InfiniBand" {
		return Result{Text: "InfiniBand, LID " + x.read(x.portDir(d.Name, port), "lid")}
	}
	show := x.command(advice.ShowAddresses, x.findNetDevOr(d.Name, "NETDEV"))
	gids, err := x.Sysfs.GIDs(d.Name, port)
	if err != nil {
		return Result{Status: Fail, Text: oneLine(err), Fix: x.command(advice.ShowKernelLog)}
	}
	switch {
	case len(gids) == 0 && x.lacksGIDs(d, port):
		return Result{Status: Skipped, Text: "no GID, so nothing can use RoCE on this port, as on an Ethernet function of a cloud; no host is probed from it"}
	case len(gids) == 0:
		return Result{Status: Fail, Fix: x.showRoCE(d), Text: "it has no GID, which probes to other hosts need"}
	}
	gids = slices.DeleteFunc(gids, func(g verbs.GID) bool {
		return g.Type != verbs.GIDRoCEv2 || x.fabric.GIDIndex >= 0 && g.Index != x.fabric.GIDIndex
	})
	families := listFamilies(gids)
	switch {
	case len(gids) == 0 && x.fabric.GIDIndex >= 0:
		return Result{Status: Fail, Fix: x.editConfig(),
			Text: fmt.Sprintf("the GID at index %d (probe.gid_index) is not of RoCE v2", x.fabric.GIDIndex)}
	case len(gids) == 0:
		return Result{Status: Fail, Fix: show, Text: "it has no GID of RoCE v2, which probes to other hosts need"}
	case len(families) == 0:
		return Result{Status: Warn, Fix: show,
			Text: "its GIDs of RoCE v2 are all link-local: it reaches only hosts on the same network segment, and only if these have no other GIDs either"}
	}
	return Result{Text: "RoCE v2: " + strings.Join(families, ", ")}
}

// listFamilies returns each address family for which the port has a routable address, with the first GID of that
// family.
func listFamilies(gids []verbs.GID) (all []string) {
	seen := map[string]bool{}
	for _, g := range gids {
		a := netip.AddrFrom16(g.Raw)
		family := "IPv6"
		if a.Is4In6() {
			family = "IPv4"
		}
		if a = a.Unmap(); a.IsLinkLocalUnicast() || seen[family] {
			continue
		}
		seen[family] = true
		all = append(all, fmt.Sprintf("%s at index %d (%s)", family, g.Index, a))
	}
	return all
}

// checkFabricClass compares the traffic class of probes with the default of rdma_cm, which applications use if they
// choose none. The default is known only if an administrator has created the device's directory in configfs
// (Documentation/ABI/testing/configfs-rdma_cm).
func checkFabricClass(x *examination) (results []Result) {
	for i := range x.devices {
		d := &x.devices[i]
		for _, port := range d.ports {
			text := x.read(path.Join("sys/kernel/config/rdma_cm", d.Name, "ports", strconv.Itoa(port), "default_roce_tos"))
			tos, err := strconv.Atoi(text)
			if err != nil || !x.probesHosts(d) {
				continue
			}
			r := Result{Check: "fabric_class", Subject: portSubject(d.Name, port)}
			r.Text = fmt.Sprintf("fabric.traffic_class = %d, and rdma_cm's default_roce_tos is the same", tos)
			if tos != x.fabric.TrafficClass {
				r.Status, r.Fix = Warn, x.editConfig()
				r.Text = fmt.Sprintf("fabric.traffic_class = %d, and rdma_cm's default_roce_tos is %d: probes may wait in other queues of the "+
					"switches than applications", x.fabric.TrafficClass, tos)
			}
			results = append(results, r)
		}
	}
	return results
}
