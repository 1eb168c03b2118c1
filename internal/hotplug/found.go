package hotplug

import "rdma_events/internal/verbs"

// Found is an RDMA device that is there.
type Found struct {
	Name string
	// Index is the kernel's number of the device. It stays through renames and
	// is not used again for its successor under the same name; -1 unknown.
	Index int
	// Node is the device's uverbs node, as in "uverbs0"; a successor may get
	// the same one. Without it the device cannot be opened: ib_uverbs is not
	// loaded, or the device is being removed and somebody still holds it.
	Node            string
	NodeGUID        string // "" unknown
	VirtualFunction bool
	// PCI is the address of its PCI function and Driver that function's driver, as in
	// "mlx5_core"; "" unknown, as of a soft device.
	PCI, Driver string
	// Added is how many times the kernel told that a device of this name was
	// added, while it was watched. One that leaves the network namespace and comes
	// back keeps its Index and may keep its node.
	Added int
}

// Usable reports whether the device can be opened.
func (f Found) Usable() bool { return f.Node != "" }

// Same reports whether f and g are one device, perhaps renamed in between.
func (f Found) Same(g Found) bool {
	if f.Index >= 0 && g.Index >= 0 {
		return f.Index == g.Index
	}
	return f.Node != "" && f.Node == g.Node && f.NodeGUID == g.NodeGUID
}

// scan lists the devices, sorted by name. It reads only what the core answers
// by itself: a driver that hangs cannot hold it.
func scan(sysfs verbs.Sysfs, indexes func() (map[string]int, error)) ([]Found, error) {
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
	found := make([]Found, 0, len(names))
	for _, name := range names {
		index, ok := byName[name]
		if !ok {
			index = -1
		}
		pci, driver := sysfs.PCIFunctionOf(name)
		found = append(found, Found{
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
