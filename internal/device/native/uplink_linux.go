//go:build linux && cgo

package native

import (
	"maps"
	"slices"

	"rdma_events/internal/device/verbs"
)

// findUplink sets the Uplink of a device of several ports. query returns the names of their network devices.
//
// In switchdev mode mlx5 has a port for each function that may exist, and behind all of them, or in the middle with a LAG, one for the cable.
// None of them has RoCE (mlx5_ib_vport_rep_load in drivers/infiniband/hw/mlx5/ib_rep.c, mlx5_eswitch_uplink_idx in
// drivers/net/ethernet/mellanox/mlx5/core/eswitch.h). Without any function the last port alone has a network device.
func (d *nativeDevice) findUplink(query func(device string) (map[int]string, error)) {
	names, err := query(d.name)
	if err != nil {
		return // all ports are judged alike then
	}
	uplink, representors := 0, false
	for _, port := range slices.Sorted(maps.Keys(names)) {
		switch portName := d.sysfs.PhysPortName(names[port]); {
		case verbs.IsRepresentor(portName):
			representors = true
		case portName != "":
			uplink = port
		}
	}
	if representors || len(names) == 1 && uplink == d.attr.Ports {
		d.attr.Uplink, d.uplinkNetDev = uplink, names[uplink]
	}
}
