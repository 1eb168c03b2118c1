package verbs

import (
	"strconv"
	"strings"
)

// PortState is enum ibv_port_state (ibv_query_port(3)).
type PortState int32

// The states of a port. PortAbsent is not in the enum: the device is not present.
const (
	PortNop PortState = iota
	PortDown
	PortInit
	PortArmed
	PortActive
	PortActiveDefer
	PortAbsent PortState = -1
)

// String returns the state as it is written in tags and fields: "nop", "down",
// "init", "armed", "active", "active_defer", "absent", "unknown_<number>" up to 31, or
// "unknown".
func (s PortState) String() string {
	switch s {
	case PortNop:
		return "nop"
	case PortDown:
		return "down"
	case PortInit:
		return "init"
	case PortArmed:
		return "armed"
	case PortActive:
		return "active"
	case PortActiveDefer:
		return "active_defer"
	case PortAbsent:
		return "absent"
	}
	// A broken library must not create a series for each number.
	if s < 0 || s > maxState {
		return "unknown"
	}
	return "unknown_" + strconv.Itoa(int(s))
}

// maxState is far above any value that the enum may get.
const maxState PortState = 31

// PhysState is the physical state of a port (struct ibv_port_attr.phys_state;
// the numbers are those of the kernel's enum ib_port_phys_state).
type PhysState uint8

// PhysLinkUp is the physical state of a port that has a link (IB_PORT_PHYS_STATE_LINK_UP).
const PhysLinkUp PhysState = 5

// String returns the physical state in lower snake case, as in "link_up".
func (s PhysState) String() string {
	names := [...]string{
		"unknown", "sleep", "polling", "disabled", "port_configuration_training",
		"link_up", "link_error_recovery", "phy_test",
	}
	if int(s) < len(names) {
		return names[s]
	}
	return "unknown_" + strconv.Itoa(int(s))
}

// LinkLayer is the port's link layer (IBV_LINK_LAYER_*).
type LinkLayer uint8

// The link layers.
const (
	LinkUnspecified LinkLayer = iota
	LinkInfiniBand
	LinkEthernet
)

// String returns "unspecified", "infiniband" or "ethernet".
func (l LinkLayer) String() string {
	switch l {
	case LinkUnspecified:
		return "unspecified"
	case LinkInfiniBand:
		return "infiniband"
	case LinkEthernet:
		return "ethernet"
	}
	return "unknown_" + strconv.Itoa(int(l))
}

// PortAttr holds the answer of ibv_query_port and further values from sysfs.
// Strings that could not be read are empty. Numbers that may be unknown have a
// Has flag.
type PortAttr struct {
	State      PortState
	Phys       PhysState
	LinkLayer  LinkLayer
	MTU        int     // active MTU in bytes; 0 if unknown
	LID, SMLID int     // 0 on Ethernet
	Width      string  // "1x", "4x"; "" if unknown
	RateGbps   float64 // signalling rate over all lanes; 0 if unknown
	// EffectiveGbps is the port's current data rate in Gbit/s, by ibv_query_port_speed(3). With a LAG it is the sum over the
	// active member ports. 0 if unknown or while the link is down.
	EffectiveGbps float64
	NetDev        string // name of the network device; "" if none

	LinkDowned    uint64 // how often the link went down, by the driver's counter
	HasLinkDowned bool
}

// DeviceAttr holds the attributes of an open device. Strings that could not be
// read are empty. NUMANode is -1 if the host has no NUMA nodes.
type DeviceAttr struct {
	Name            string
	Ports           int
	Vectors         int  // completion vectors
	EventsSupported bool // false where the driver raises no asynchronous events
	AlwaysActive    bool // the driver reports each port as active, even without a link
	NodeGUID        string
	SysImageGUID    string
	PCIAddress      string // a scalable function has the address of its physical function
	NUMANode        int
	BoardID         string
	Driver          string // kernel driver, as in "mlx5_core" or "rdma_rxe"
	Transport       string // "infiniband", "iwarp", "usnic", ...
	Firmware        string
	VirtualFunction bool // of SR-IOV, or a scalable function
	CountsFlushes   bool // the driver counts flushed work requests, and operators watch that counter
	// Uplink is the port with the cable, on a device in switchdev mode. Each other port represents a function in the switch of the card, or
	// is free for one. 0: the device is not in this mode, or the port is unknown.
	Uplink int
}

// WatchedPorts returns the numbers of the ports to watch: the named ones or, if none are named, those of IsWatchedByDefault.
func (a *DeviceAttr) WatchedPorts(named []int) []int {
	if len(named) > 0 {
		return named
	}
	var numbers []int
	for n := 1; n <= a.Ports; n++ {
		if IsWatchedByDefault(n, a.Uplink) {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// IsWatchedByDefault reports whether a port is watched if the configuration names no ports: it is the uplink or one of the first ports, together
// at most MaxPorts. uplink is DeviceAttr.Uplink.
func IsWatchedByDefault(port, uplink int) bool {
	if uplink > MaxPorts {
		return port < MaxPorts || port == uplink
	}
	return port <= MaxPorts
}

// Cable returns an identifier of the port's cable, which ports of several devices share if they are the same physical port. It
// returns "" if that is unknown.
//
// With Socket Direct a NIC has two PCI functions, on two buses, for the same physical port. A multi-host NIC has one function
// on each of several hosts. All these functions have the system image GUID of the NIC. If a NIC has several physical ports, they
// are functions with different numbers, or ports of one device. A GUID of zeros was not set by the driver. Simulated devices
// have the same GUIDs on all hosts, and no cable.
func (a *DeviceAttr) Cable(port int) string {
	_, function, ok := strings.Cut(a.PCIAddress, ".")
	if strings.Trim(a.SysImageGUID, "0:") == "" || !ok || a.VirtualFunction || a.Driver == "sim" {
		return ""
	}
	return a.SysImageGUID + "/" + function + "/" + strconv.Itoa(port)
}
