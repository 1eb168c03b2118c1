package drivers

import "fmt"

// Release is a release of the Linux kernel; the zero Release is none.
type Release struct{ Major, Minor int }

// OldestRead returns the oldest release from which the facts of the table come.
func OldestRead() Release { return Release{6, 1} }

// String returns the release as in "6.12", "" for none.
func (r Release) String() string {
	if r == (Release{}) {
		return ""
	}
	return fmt.Sprintf("%d.%d", r.Major, r.Minor)
}

// Before reports whether r is older than s. An unknown release counts as older than any other.
func (r Release) Before(s Release) bool {
	return r.Major < s.Major || r.Major == s.Major && r.Minor < s.Minor
}

// ParseRelease returns the release of a text as in "6.1.0-37-amd64", which is /proc/sys/kernel/osrelease; the zero Release if it
// is not of this form.
func ParseRelease(text string) Release {
	var r Release
	if n, _ := fmt.Sscanf(text, "%d.%d", &r.Major, &r.Minor); n < 2 {
		return Release{}
	}
	return r
}

// Unloading tells whether a kernel can unload the driver of a device while a process has the device open.
type Unloading int

// The answers.
const (
	// UnloadRefused means that the unload fails at once with EBUSY ("Module is in use"): ib_uverbs takes a reference to the driver's
	// module with each open, because the kernel cannot withdraw the device from its users (ib_uverbs_open in
	// drivers/infiniband/core/uverbs_main.c, ib_device_ops.disassociate_ucontext).
	UnloadRefused Unloading = iota
	// UnloadWorks means that the kernel withdraws the device from its users.
	UnloadWorks
	// UnloadUnknown means that the driver has no row in the table.
	UnloadUnknown
)

// Unload returns whether a kernel can unload a driver (a value of verbs.DeviceAttr.Driver) while a device of it is open.
func Unload(kernel string, running Release) Unloading {
	for _, d := range All() {
		for _, name := range d.Kernel {
			switch {
			case name != kernel:
			case d.Disassociates == (Release{}) || running.Before(d.Disassociates):
				return UnloadRefused
			default:
				return UnloadWorks
			}
		}
	}
	return UnloadUnknown
}
