//go:build linux && cgo

package native

import (
	"maps"
	"regexp"
	"slices"
)

// representorName matches the port names (phys_port_name) of the network devices that represent functions, such as pf0, pf0vf3, pf0sf88 and
// c1pf0vf3 (__devlink_port_phys_port_name_get in net/devlink/port.c; Documentation/networking/representors.rst). The network device of a cable
// has a name such as p0 or p0s1.
var representorName = regexp.MustCompile(`^(c\d+)?pf\d`)

// findUplink sets the Uplink of a device of several ports. query returns the names of their network devices.
//
// In switchdev mode mlx5 has a port for each function that may exist and one for the cable, which comes last, or in the middle with a LAG. No
// port has RoCE (mlx5_ib_vport_rep_load in drivers/infiniband/hw/mlx5/ib_rep.c, mlx5_eswitch_uplink_idx in
// drivers/net/ethernet/mellanox/mlx5/core/eswitch.h). While no function exists, only the port of the cable has a network device.
func (d *nativeDevice) findUplink(query func(device string) (map[int]string, error)) {
	names, err := query(d.name)
	if err != nil {
		return // all ports are judged alike then
	}
	uplink, representors := 0, false
	for _, port := range slices.Sorted(maps.Keys(names)) {
		switch portName := d.sysfs.PhysPortName(names[port]); {
		case representorName.MatchString(portName):
			representors = true
		case portName != "":
			uplink = port
		}
	}
	if representors || len(names) == 1 && uplink == d.attr.Ports {
		d.attr.Uplink, d.uplinkNetDev = uplink, names[uplink]
	}
}
