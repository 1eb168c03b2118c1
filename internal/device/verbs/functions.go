package verbs

import (
	"fmt"
	"slices"
	"strings"
)

// VirtualFunctions is which virtual and scalable functions are watched. Each takes a worker, and a host may have hundreds of them.
type VirtualFunctions int

// The values.
const (
	// VirtualAlone watches those whose physical function is not visible, as in a pod.
	VirtualAlone VirtualFunctions = iota
	VirtualNone
	VirtualAll
)

// Watches reports whether a device is watched as far as its function decides that. found has all devices;
// those of other network namespaces are not visible.
func (v VirtualFunctions) Watches(f Found, found []Found) bool {
	switch {
	case !f.VirtualFunction || v == VirtualAll:
		return true
	case v == VirtualNone:
		return false
	}
	return !slices.ContainsFunc(found, f.isOf)
}

// isOf reports whether f is a function of the physical function g, or of one that has no RDMA device but the one of g: with a bond
// or a LAG of a card's ports one of them has the device of all. Where a network namespace has another port's device and not
// this one's, the network device of this one is not there either.
func (f Found) isOf(g Found) bool {
	switch {
	case g.VirtualFunction, g.Netns == NetnsOther:
		return false
	case f.Parent == "" || f.Parent == g.PCI:
		return true
	}
	return f.ParentNetDev && PCISlot(f.Parent) == PCISlot(g.PCI)
}

// PCISlot returns the address of a PCI function without the function's number.
func PCISlot(address string) string {
	before, _, _ := strings.Cut(address, ".")
	return before
}

// Explain returns why n functions are not watched, and the option that decides about that.
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
