package sysfs

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"rdma_events/internal/device/verbs"
)

// PortNetDev returns the name of a port's network device, "" if it is unknown, as for
// InfiniBand or while the port has no GID. It asks no driver.
func (s FS) PortNetDev(name string, port int) string { return portNetDev(s.portDir(name, port)) }

// PhysPortName returns the name of a network device's port on its card, such as p0 or pf0vf3, "" if it is unknown. While another process
// holds the kernel's RTNL lock, the read is repeated without a pause (phys_port_name_show in net/core/net-sysfs.c), until the process is killed.
func (s FS) PhysPortName(netdev string) string {
	return readAttr(filepath.Join(s.root, "class/net", netdev), "phys_port_name")
}

// hasNetDev reports whether this network namespace has a network device of that name.
func (s FS) hasNetDev(name string) bool {
	return name != "" && pathExists(filepath.Join(s.root, "class/net"), name)
}

// NetDev returns the state of a network device. It returns ErrUnsupported if there is no device
// of that name, for example because it is in another network namespace. It asks no driver.
func (s FS) NetDev(name string) (verbs.NetDev, error) {
	dir := filepath.Join(s.root, "class/net", name)
	flags, err := strconv.ParseUint(strings.TrimPrefix(readAttr(dir, "flags"), "0x"), 16, 32)
	if name == "" || err != nil {
		return verbs.NetDev{}, fmt.Errorf("%w: no network device %q in this network namespace", verbs.ErrUnsupported, name)
	}
	n := verbs.NetDev{Name: name, AdminUp: flags&unix.IFF_UP != 0, Virtual: !pathExists(dir, "device")}
	if n.AdminUp {
		n.Carrier, n.HasCarrier = carrierOf(readAttr(dir, "operstate"))
	}
	if n.CarrierChanges, err = strconv.ParseInt(readAttr(dir, "carrier_changes"), 10, 64); err == nil {
		n.HasCarrierChanges = true
	}
	return n, nil
}

// carrierOf returns whether a network device with an operational state has a carrier, by the rules
// of default_operstate in net/core/link_watch.c. The file carrier may change up to a second
// earlier, but not earlier than the port events of drivers that derive them from the network
// device. The file is not used, because later kernels, 6.12 among them, take the RTNL lock for it
// and retry without a pause while another process holds the lock (carrier_show in
// net/core/net-sysfs.c).
func carrierOf(operstate string) (carrier, known bool) {
	switch operstate {
	case "down", "lowerlayerdown":
		return false, true
	case "up", "dormant", "testing", "unknown": // unknown: the driver has never reported the carrier, so the kernel assumes one
		return true, true
	}
	return false, false
}
