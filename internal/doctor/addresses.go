package doctor

import "fmt"

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
	isIB := x.portAttr(d.Name, port, "link_layer") == "InfiniBand"
	active := x.portState(d.Name, port) == "ACTIVE"
	switch {
	case d.Transport == "iwarp":
		r.Text = "iWARP needs none"
	case !active && a.GIDs == 0:
		r.Text = "none, as long as the port is not active"
	case a.GIDs == 0 && !isIB:
		r.Status, r.Text = Fail, "no usable GID, although the port is active: RoCE addresses a port by one"
		r.Fix = x.asRoot("ip addr add ADDRESS/PREFIX dev %s", x.netdevOr(d.Name, "NETDEV"))
	case isIB && a.PKeys > 0 && !a.FullMember:
		r.Status, r.Text = Warn, "its P_Keys are all of limited membership; a limited member cannot reach itself"
		r.Fix = x.asRoot("$EDITOR /etc/opensm/partitions.conf && systemctl restart opensm")
	default:
		r.Text = fmt.Sprintf("%d GIDs, probes use index %d (%s); P_Key index %d", a.GIDs, a.GIDIndex, a.GID, a.PKeyIndex)
	}
	return r
}

func (x *examination) netdevOr(device, other string) string {
	if netdev := x.netdev(device, ""); netdev != "" {
		return netdev
	}
	return other
}
