package sim

import "rdma_events/internal/verbs"

// NewFabric implements verbs.Device.
func (d *device) NewFabric(c verbs.FabricConfig) (verbs.Fabric, verbs.FabricPort, error) {
	return nil, verbs.FabricPort{}, verbs.NewOpError("new fabric", d.Attr().Name, c.Port, verbs.ErrNeverFabric)
}
