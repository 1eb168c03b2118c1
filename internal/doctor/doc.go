// Package doctor examines a host: whether rdma_events can watch its RDMA
// devices, and which command mends what is wrong. It changes nothing, save that
// the kernel loads ib_uverbs when a device has no node; it needs no
// privilege and no device, and opens devices only by means of the worker program.
package doctor
