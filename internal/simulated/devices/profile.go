package devices

import (
	"fmt"
	"strconv"
	"strings"

	"rdma_events/internal/device/verbs"
)

// maxFleet is the maximum N of the profile fleetN.
const maxFleet = 256

// profileNames lists the allowed values of Options.Profile.
const profileNames = "roce2, ib8, dual, iwarp, efa, fleetN (N from 1 to 256), or a driver: " +
	"bnxt_re, cxgb4, erdma, hns, irdma, irdma_iwarp, mana, mlx4, mlx5, mlx5_vf, qedr, rxe, siw"

// spec is the description of a device in its profile.
type spec struct {
	attr  verbs.DeviceAttr
	ports []portSpec
	// disassociates: the driver can take a device away from an open context, which
	// then reads device_fatal. Without it, the context reads nothing more.
	disassociates bool
	portEvents    uint64 // events of a kind that one change of a port raises; 0: one
	speedEvents   bool   // each change of a port raises device_speed_change first
	commands      verbs.CommandSet
}

// portSpec is a port with its link up.
type portSpec struct {
	attr    verbs.PortAttr
	methods []verbs.Method
	gids    int
	pkeys   int

	software     bool          // the host's CPU does what an adapter does
	flush        verbs.Outcome // outcome of rounds of that method
	stuckCounter bool          // its link_downed stays 0
}

// profileSpecs returns the devices of a profile.
func profileSpecs(name string) ([]spec, error) {
	switch name {
	case "roce2":
		return fleetSpecs(2, roceSpec), nil
	case "ib8":
		return fleetSpecs(8, infinibandSpec), nil
	case "dual":
		return fleetSpecs(1, dualSpec), nil
	case "iwarp":
		return fleetSpecs(1, iwarpSpec), nil
	case "efa":
		return fleetSpecs(1, efaSpec), nil
	}
	if build, ok := driverProfiles()[name]; ok {
		specs := fleetSpecs(1, build)
		specs[0].commands = verbs.DriverCommands(kernelDriver(name))
		return specs, nil
	}
	if digits, ok := strings.CutPrefix(name, "fleet"); ok {
		if n, err := strconv.Atoi(digits); err == nil && n >= 1 && n <= maxFleet {
			return fleetSpecs(n, roceSpec), nil
		}
	}
	return nil, fmt.Errorf("unknown profile %q; allowed: %s", name, profileNames)
}

func fleetSpecs(n int, build func(i int) spec) []spec {
	specs := make([]spec, n)
	for i := range specs {
		specs[i] = build(i)
		specs[i].attr.Ports = len(specs[i].ports)
		specs[i].commands = verbs.NewCommandSet(verbs.CommandHWCounters, verbs.CommandQueryPort, verbs.CommandQueryQP)
	}
	return specs
}

// attrOf returns the attributes of the i-th device, which are the same in every profile.
func attrOf(i int) verbs.DeviceAttr {
	return verbs.DeviceAttr{
		Name:            fmt.Sprintf("sim%d", i),
		Vectors:         8,
		EventsSupported: true,
		NodeGUID:        fmt.Sprintf("0200:0000:0000:%04x", i+1),
		SysImageGUID:    fmt.Sprintf("0200:0000:0000:%04x", i+1),
		PCIAddress:      fmt.Sprintf("0000:%02x:%02x.0", 0x10+i/32, i%32),
		NUMANode:        i % 2,
		BoardID:         "SIM0000000001",
		Driver:          "sim",
		Transport:       "infiniband",
		Firmware:        "22.39.2048",
	}
}

func ethernetPort(i, port int) portSpec {
	return portSpec{
		attr: verbs.PortAttr{
			LinkLayer: verbs.LinkEthernet, MTU: 4096, Width: "4x", RateGbps: 100,
			NetDev: fmt.Sprintf("simeth%d%c", i, 'a'+port), HasLinkDowned: true,
		},
		methods: []verbs.Method{verbs.MethodRCWrite, verbs.MethodUDSend, verbs.MethodFlush},
		gids:    4,
		pkeys:   1,
	}
}

func infinibandPort(lid int) portSpec {
	return portSpec{
		attr: verbs.PortAttr{
			LinkLayer: verbs.LinkInfiniBand, MTU: 4096, Width: "4x", RateGbps: 400,
			LID: lid, SMLID: 1, HasLinkDowned: true,
		},
		methods: []verbs.Method{verbs.MethodRCWrite, verbs.MethodUDSend, verbs.MethodFlush},
		gids:    1,
		pkeys:   2,
	}
}

func roceSpec(i int) spec {
	return spec{attr: attrOf(i), ports: []portSpec{ethernetPort(i, 0)}, disassociates: true}
}

// infinibandSpec describes a device that counts flushed work requests, as ConnectX does.
func infinibandSpec(i int) spec {
	attr := attrOf(i)
	attr.CountsFlushes = true
	return spec{attr: attr, ports: []portSpec{infinibandPort(10 + i)}, disassociates: true}
}

// dualSpec describes a device with one port of each link layer, like a ConnectX VPI card.
func dualSpec(i int) spec {
	return spec{
		attr:          attrOf(i),
		ports:         []portSpec{infinibandPort(10 + i), ethernetPort(i, 1)},
		disassociates: true,
	}
}

// iwarpSpec describes a device that supports only the method flush, because its queue pairs can connect to themselves only over
// TCP. Like siw, it has no link_downed and does not disassociate.
func iwarpSpec(i int) spec {
	port := ethernetPort(i, 0)
	port.methods = []verbs.Method{verbs.MethodFlush}
	port.gids = 1
	port.attr.HasLinkDowned = false
	attr := attrOf(i)
	attr.Transport = "iwarp"
	return spec{attr: attr, ports: []portSpec{port}}
}

// efaSpec describes a device without asynchronous events and without RC queue pairs. Unlike the driver, it reports a port as down
// if its link is down.
func efaSpec(i int) spec {
	port := ethernetPort(i, 0)
	port.methods = []verbs.Method{verbs.MethodUDSend}
	port.gids = 1
	port.attr.LinkLayer, port.attr.NetDev = verbs.LinkUnspecified, ""
	port.attr.HasLinkDowned = false
	attr := attrOf(i)
	attr.EventsSupported, attr.AlwaysActive = false, true
	return spec{attr: attr, ports: []portSpec{port}}
}
