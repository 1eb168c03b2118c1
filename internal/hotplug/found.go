package hotplug

import (
	"rdma_events/internal/verbs"
	"rdma_events/internal/verbs/sysfs"
)

// scan lists the devices, sorted by name. It reads only what the core answers
// by itself: a driver that hangs cannot hold it.
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
		byName = nil // they are a help, not a need
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
