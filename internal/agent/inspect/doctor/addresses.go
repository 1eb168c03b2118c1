package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"rdma_events/internal/agent/advice"
)

// checkAddresses checks that each active port has the addresses that a probe needs.
func checkAddresses(x *examination) []Result {
	results := x.eachPort(x.checkAddress)
	if len(results) == 0 {
		return []Result{{Check: "addresses", Text: "no port, so no GID and no P_Key"}}
	}
	return results
}

func (x *examination) checkAddress(d *device, port int) Result {
	r := Result{Check: "addresses"}
	a := x.Sysfs.Addresses(d.Name, port)
	layer := x.portAttr(d.Name, port, "link_layer")
	isIB, isEthernet := layer == "InfiniBand", layer == "Ethernet"
	active := x.portState(d.Name, port) == "ACTIVE"
	switch {
	case d.Transport == "iwarp":
		r.Text = "iWARP needs none"
	case !active && a.GIDs == 0:
		r.Text = "no usable GID while the port is not active"
	case a.GIDs == 0 && x.lacksGIDs(d, port):
		r.Status = Skipped
		r.Text = "no GID, so nothing can use RoCE on this port (normal for an Ethernet function in a cloud); its state and events are watched, but it is not probed"
	case a.GIDs == 0 && isEthernet:
		r.Status, r.Fix = Warn, x.showRoCE(d)
		r.Text = fmt.Sprintf("no usable GID, although the port is active and %s has an address: is RoCE switched off?", x.findNetDevOr(d.Name, "its network device"))
	case a.GIDs == 0:
		r.Status, r.Text, r.Fix = Warn, "no usable GID, although the port is active", x.command(advice.ShowKernelLog)
	case isIB && a.PKeys > 0 && !a.FullMember:
		r.Status = Warn
		r.Text = "all its P_Keys have limited membership, and a limited member cannot reach itself; ask the fabric's administrator for full membership"
		r.Fix = x.command(advice.ShowPKeys, "/"+x.portDir(d.Name, port))
	default:
		r.Text = fmt.Sprintf("%d GIDs, probes use index %d (%s); P_Key index %d", a.GIDs, a.GIDIndex, a.GID, a.PKeyIndex)
	}
	return r
}

// lacksGIDs reports whether a port may have no GIDs by design. The kernel derives the GIDs of an Ethernet port from the
// addresses of its network device, if the function supports RoCE. InfiniBand ports have a GID derived from their GUID,
// and EFA ports a GID of the device.
func (x *examination) lacksGIDs(d *device, port int) bool {
	netdev := x.findNetDev(d.Name, "")
	return x.portAttr(d.Name, port, "link_layer") == "Ethernet" && !x.HasAddress(netdev) && !x.HasAddress(x.findBond(netdev))
}

// findBond returns the bond to which a network device belongs, or "".
func (x *examination) findBond(netdev string) string {
	master, err := fs.ReadLink(x.Root, path.Join("sys/class/net", netdev, "master"))
	if err != nil || !x.exists("sys/class/net", path.Base(master), "bonding") {
		return ""
	}
	return path.Base(master)
}

// showRoCE returns the command that shows why a device has no GIDs. It changes nothing.
func (x *examination) showRoCE(d *device) advice.Line {
	if d.PCIAddress == "" || !strings.HasPrefix(d.Driver, "mlx5") {
		return x.command(advice.ShowKernelLog)
	}
	return x.command(advice.ShowRoCE, d.PCIAddress)
}

// findNetDevOr returns the network device of a device, or other if it is unknown.
func (x *examination) findNetDevOr(device, other string) string {
	if netdev := x.findNetDev(device, ""); netdev != "" {
		return netdev
	}
	return other
}
