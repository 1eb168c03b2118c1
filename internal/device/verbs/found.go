package verbs

import "context"

// Found is an RDMA device that is present.
type Found struct {
	Name string
	// Index is the kernel's number of the device; -1 if it is unknown. A device keeps
	// it through renames, and the kernel does not use it again for a later device of
	// the same name.
	Index int
	// Node is the device's uverbs node, as in "uverbs0"; a later device may get the same
	// one. A device without a node cannot be opened: ib_uverbs is not loaded, or the device
	// is being removed while a process still has it open.
	Node string
	// Pending reports that ib_uverbs is loaded and has not made the node, and that this may still
	// change. Unwatchable is why the device never gets one, so that no program can open it; "" if
	// it has a node or may get one.
	Pending     bool
	Unwatchable string
	// NodeMissing reports that the kernel has the node and that the host's /dev/infiniband lacks its file, so that no program of the
	// host can open the device.
	NodeMissing     bool
	NodeGUID        string // "" if unknown
	VirtualFunction bool   // of SR-IOV, or a scalable function
	// Scalable tells a scalable function from a virtual one of SR-IOV. It is on the auxiliary bus and has no PCI function of its own.
	Scalable bool
	// Parent is the PCI address of the physical function that a virtual or scalable function is a part of; "" if unknown.
	// ParentNetDev is set if a network device of the Parent is visible.
	Parent       string
	ParentNetDev bool
	// PCI is the address of the device's PCI function, and Driver is the driver of that
	// function, as in "mlx5_core". Both are "" if unknown, as for a soft device, and for a scalable
	// function.
	PCI, Driver string
	// Soft reports that the device is a soft one, as of rxe and siw: an administrator makes it over a network device, and deletes it.
	Soft bool
	// Added is how many times the kernel reported that a device of this name was added,
	// while the name was watched. It is needed because a device that leaves the network
	// namespace and comes back keeps its Index and may keep its node.
	Added int
	// Netns is which network namespaces have the device. Of a device that only another one has, Index, NodeGUID, ParentNetDev and
	// Added are not known.
	Netns Netns
}

// Netns is which network namespaces have a device (rdma-system(8)).
type Netns int

// The modes. In exclusive mode a device belongs to one network namespace, and an administrator can move it to another.
const (
	NetnsShared Netns = iota // all of them
	NetnsOwn                 // exclusive mode: that of this process
	NetnsOther               // exclusive mode: another one, so that this process can neither open the device nor ask for it
)

// Usable reports whether the device can be opened.
func (f Found) Usable() bool { return f.Node != "" && f.Netns != NetnsOther }

// Same reports whether f and g are the same device, perhaps renamed in between.
func (f Found) Same(g Found) bool {
	if f.Index >= 0 && g.Index >= 0 {
		return f.Index == g.Index
	}
	return f.Node != "" && f.Node == g.Node && f.NodeGUID == g.NodeGUID
}

// PCIFunction is the state of a PCI function in sysfs, whether or not there is an RDMA
// device on it.
type PCIFunction struct {
	Driver string // the driver bound to the function, as in "vfio-pci"; "" if none
	// Master is the network device that the function's own network device belongs to,
	// mostly a bond; "" if none. Devices of other network namespaces are not visible.
	Master string
	// Instance tells one registration of the function with the kernel from another: a function that is removed and found again at
	// its address has a different one. 0: it is not known, or there is no such function. Absent reports that there is none.
	Instance uint64
	Absent   bool
}

// Carrier returns the address of the PCI function that the device goes with: its own, or the one that a scalable function is on; "" if
// it is not known, as for a soft device.
func (f Found) Carrier() string {
	if f.Scalable {
		return f.Parent
	}
	return f.PCI
}

// Discovery finds the devices that are present. Run calls report with the full set, at
// first and at every change, and blocks until ctx ends. A Run that returns nil before
// that has no more changes to report.
type Discovery interface {
	Run(ctx context.Context, report func([]Found)) error
}
