package verbs

import "context"

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

// PCIFunction is what sysfs knows of a PCI function, whether or not there is an
// RDMA device on it.
type PCIFunction struct {
	Driver string // that is bound to it, as in "vfio-pci"; "" none
	// Master is the network device that the function's own belongs to, mostly a bond;
	// "" none. Devices of other network namespaces are not seen.
	Master string
}

// Discovery finds the devices that are present. Run calls back with the full
// set, at first and at every change, and blocks until ctx ends. A Run that
// returns nil before that has no more changes to tell of.
type Discovery interface {
	Run(ctx context.Context, report func([]Found)) error
}
