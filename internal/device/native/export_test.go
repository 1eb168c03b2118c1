//go:build linux && cgo

package native

import (
	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
)

// NewAt is New with the device nodes in the directory nodes instead of
// /dev/infiniband.
func NewAt(sysfs sysfs.FS, nodes string) verbs.Backend { return backend{sysfs, nodes} }
