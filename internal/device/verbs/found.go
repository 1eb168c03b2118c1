package verbs

import "context"

// Found is an RDMA device that is present.
type Found struct {
	Name string
	// Index is the kernel's number of the device; -1 if unknown. A device keeps its index
	// when it is renamed. The kernel does not give it to a later device of the same name.
	Index int
	// Node is the name of the device's uverbs node, as in "uverbs0". A later device may get
	// the same name. A device without a node cannot be opened: ib_uverbs is not loaded, or
	// the device is being removed while a process still has it open.
	Node string
	// Pending reports that ib_uverbs is loaded and may still create the node. Unwatchable is
	// the reason why the device never gets a node, so that no program can open it; "" if it
	// has a node or may get one.
	Pending     bool
	Unwatchable string
	// NodeMissing reports that the kernel has the node but /dev/infiniband on the host lacks its file, so that no program of
	// the host can open the device.
	NodeMissing     bool
	NodeGUID        string // "" if unknown
	VirtualFunction bool   // of SR-IOV, or a scalable function
	// Scalable distinguishes a scalable function from a virtual function of SR-IOV. A scalable function is on the auxiliary
	// bus and has no PCI function of its own.
	Scalable bool
	// Parent is the PCI address of the physical function of a virtual or scalable function; "" if unknown. ParentNetDev
	// reports that a network device of the Parent is visible.
	Parent       string
	ParentNetDev bool
	// PCI is the address of the device's PCI function, and Driver is the driver of that
	// function, as in "mlx5_core". Both are "" if unknown, for a soft device, and for a
	// scalable function.
	PCI, Driver string
	// Soft reports a soft device, as of rxe and siw, which an administrator creates over a network device and deletes.
	Soft bool
	// Added counts how often the kernel reported that a device of this name was added while
	// the name was watched. It is needed because a device that leaves the network namespace
	// and comes back keeps its Index and may keep its node.
	Added int
	// Netns tells which network namespaces have the device. With NetnsOther, Index, NodeGUID, ParentNetDev and Added are unknown.
	Netns Netns
}

// Netns tells which network namespaces have a device (rdma-system(8)).
type Netns int

// The modes. In exclusive mode a device belongs to one network namespace, and an administrator can move it to another.
const (
	NetnsShared Netns = iota // shared mode: every namespace
	NetnsOwn                 // exclusive mode: the namespace of this process
	NetnsOther               // exclusive mode: another namespace, so that this process can neither open nor query the device
)

// Usable reports whether the device can be opened.
func (f Found) Usable() bool { return f.Node != "" && f.Netns != NetnsOther }

// Same reports whether f and g are the same device, which may have been renamed.
func (f Found) Same(g Found) bool {
	if f.Index >= 0 && g.Index >= 0 {
		return f.Index == g.Index
	}
	return f.Node != "" && f.Node == g.Node && f.NodeGUID == g.NodeGUID
}

// PCIFunction is the state of a PCI function in sysfs, with or without an RDMA device.
type PCIFunction struct {
	Driver string // the driver bound to the function, as in "vfio-pci"; "" if none
	// Master is the upper device of the function's network device, usually a bond; ""
	// if none. Devices of other network namespaces are not visible.
	Master string
	// Instance identifies one registration of the function with the kernel. It changes when the function is removed and found
	// again at the same address. 0: unknown, or there is no such function. Absent reports that there is no such function.
	Instance uint64
	Absent   bool
}

// OwningPCI returns the address of the PCI function that the device belongs to: its own, or for a scalable function its parent's. It
// returns "" if the address is unknown, as for a soft device.
func (f Found) OwningPCI() string {
	if f.Scalable {
		return f.Parent
	}
	return f.PCI
}

// Discovery finds the devices that are present. Run calls report with the full set, first
// at once and then at every change. It blocks until ctx ends, or returns nil earlier if no
// further change is possible.
type Discovery interface {
	Run(ctx context.Context, report func([]Found)) error
}
