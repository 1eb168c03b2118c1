//go:build linux && cgo

package native

import "rdma_events/internal/verbs"

// NewFabric implements verbs.Device.
func (d *nativeDevice) NewFabric(c verbs.FabricConfig) (verbs.Fabric, verbs.FabricPort, error) {
	return nil, verbs.FabricPort{}, verbs.NewOpError("new fabric", d.name, c.Port, verbs.ErrNeverFabric)
}
