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
		r.Text = "none, as long as the port is not active"
	case a.GIDs == 0 && x.lacksGIDs(d, port):
		r.Status = Skipped
		r.Text = "no GID, so nothing can use RoCE on this port, as on an Ethernet function of a cloud; its state and events are watched, and it is not probed"
	case a.GIDs == 0 && isEthernet:
		r.Status, r.Fix = Warn, x.showRoCE(d)
		r.Text = fmt.Sprintf("no usable GID, although the port is active and %s has an address: is RoCE switched off?", x.netdevOr(d.Name, "its network device"))
	case a.GIDs == 0:
		r.Status, r.Text, r.Fix = Warn, "no usable GID, although the port is active", x.line(advice.ShowKernelLog)
	case isIB && a.PKeys > 0 && !a.FullMember:
		r.Status = Warn
		r.Text = "its P_Keys are all of limited membership, and a limited member cannot reach itself; whoever runs the fabric can make it a full member"
		r.Fix = x.line(advice.ShowPKeys, "/"+x.portDir(d.Name, port))
	default:
		r.Text = fmt.Sprintf("%d GIDs, probes use index %d (%s); P_Key index %d", a.GIDs, a.GIDIndex, a.GID, a.PKeyIndex)
	}
	return r
}

// lacksGIDs reports whether a port may have no GIDs by design. The kernel makes the GIDs of an Ethernet port of the addresses of
// its network device, if the function can RoCE. InfiniBand ports have one of their GUID, and EFA's one of the device.
func (x *examination) lacksGIDs(d *device, port int) bool {
	netdev := x.netdev(d.Name, "")
	return x.portAttr(d.Name, port, "link_layer") == "Ethernet" && !x.Addressed(netdev) && !x.Addressed(x.bondOf(netdev))
}

// bondOf returns the bond of a network device, "" if it is in none.
func (x *examination) bondOf(netdev string) string {
	master, err := fs.ReadLink(x.Root, path.Join("sys/class/net", netdev, "master"))
	if err != nil || !x.exists("sys/class/net", path.Base(master), "bonding") {
		return ""
	}
	return path.Base(master)
}

// showRoCE returns the command that shows why a device has no GIDs. It changes nothing.
func (x *examination) showRoCE(d *device) advice.Line {
	if d.PCIAddress == "" || !strings.HasPrefix(d.Driver, "mlx5") {
		return x.line(advice.ShowKernelLog)
	}
	return x.line(advice.ShowRoCE, d.PCIAddress)
}

func (x *examination) netdevOr(device, other string) string {
	if netdev := x.netdev(device, ""); netdev != "" {
		return netdev
	}
	return other
}
