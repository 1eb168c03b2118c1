//go:build linux && cgo

package verbs

// NativeAt is Native with the device nodes in another directory than
// /dev/infiniband.
func NativeAt(sysfs Sysfs, nodes string) Backend { return native{sysfs, nodes} }
