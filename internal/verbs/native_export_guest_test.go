//go:build guest

package verbs

import "unsafe"

// Context returns the struct ibv_context of a native device: the first member of struct device (native_lib.h).
func Context(d Device) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(d.(*nativeDevice).c))
}
