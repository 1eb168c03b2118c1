//go:build guest

package native

import (
	"unsafe"

	"rdma_events/internal/device/verbs"
)

// Context returns the struct ibv_context of a native device: the first member of struct device (native_lib.h).
func Context(d verbs.Device) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(d.(*nativeDevice).c))
}
