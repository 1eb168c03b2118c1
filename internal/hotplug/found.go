package hotplug

import (
	"rdma_events/internal/verbs"
	"rdma_events/internal/verbs/sysfs"
)

// scan lists the devices, sorted by name. It reads only attributes that the RDMA
// core provides itself, so that a driver that hangs cannot block it.
func scan(sysfs sysfs.FS, indexes func() (map[string]int, error)) ([]verbs.Found, error) {
	names, err := sysfs.Devices()
	if err != nil || len(names) == 0 {
		return nil, err
	}
	nodes, err := sysfs.Nodes()
	if err != nil {
		return nil, err
	}
	byName, err := indexes()
	if err != nil {
		byName = nil // the indexes are optional
	}
	found := make([]verbs.Found, 0, len(names))
	for _, name := range names {
		index, ok := byName[name]
		if !ok {
			index = -1
		}
		pci, driver := sysfs.PCIFunctionOf(name)
		found = append(found, verbs.Found{
			Name:            name,
			PCI:             pci,
			Driver:          driver,
			Index:           index,
			Node:            nodes[name],
			NodeGUID:        sysfs.NodeGUID(name),
			VirtualFunction: sysfs.VirtualFunction(name),
		})
	}
	return found, nil
}
