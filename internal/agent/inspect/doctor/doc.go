// Package doctor examines a host. It reports whether rdma_events can watch the RDMA devices, and the command that fixes
// each problem. It changes nothing on the host, with one exception: the kernel loads ib_uverbs if a device has no node.
// The package needs no privilege and no device. Only the worker program opens devices.
package doctor
