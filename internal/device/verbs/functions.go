package verbs

import (
	"fmt"
	"slices"
	"strings"
)

// VirtualFunctions decides which virtual and scalable functions are watched. Each takes a worker, and a host may have hundreds.
type VirtualFunctions int

// The values.
const (
	// VirtualAlone watches a function if its physical function is not visible, as in a pod.
	VirtualAlone VirtualFunctions = iota
	VirtualNone
	VirtualAll
)

// Watches reports whether f passes the rule for virtual and scalable functions. found lists all devices. Devices of other network
// namespaces do not count as visible.
func (v VirtualFunctions) Watches(f Found, found []Found) bool {
	switch {
	case !f.VirtualFunction || v == VirtualAll:
		return true
	case v == VirtualNone:
		return false
	}
	return !slices.ContainsFunc(found, f.belongsTo)
}

// belongsTo reports whether f is a virtual or scalable function of the physical function g. It also does if f's physical function is
// another port of g's card whose RDMA device is that of g, as with a bond or LAG of the ports. That case requires that the network
// device of f's parent is visible: a network namespace that has only g's port does not have it.
func (f Found) belongsTo(g Found) bool {
	switch {
	case g.VirtualFunction, g.Netns == NetnsOther:
		return false
	case f.Parent == "" || f.Parent == g.PCI:
		return true
	}
	return f.ParentNetDev && PCISlot(f.Parent) == PCISlot(g.PCI)
}

// PCISlot returns the address of a PCI function without its function number.
func PCISlot(address string) string {
	before, _, _ := strings.Cut(address, ".")
	return before
}

// Explain describes why n functions are not watched, and names the option that decides it.
func (v VirtualFunctions) Explain(n int) string {
	what, their := "virtual or scalable functions are", "their physical functions are"
	if n == 1 {
		what, their = "virtual or scalable function is", "its physical function is"
	}
	why := fmt.Sprintf("because %s visible here; virtual_functions = true watches all", their)
	if v == VirtualNone {
		why = "as virtual_functions = false says"
	}
	return fmt.Sprintf("%d %s not watched, %s", n, what, why)
}
