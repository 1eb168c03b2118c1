// Package trace defines what a tracer sees of the processes on a host that use RDMA: asynchronous events that are queued, read or
// thrown away, which of them are errors, and threads that hang in the destruction of an object because an event was not
// acknowledged. A Source sees it: package ebpf by eBPF on the kernel's ib_uverbs, package simulated/applications in the simulator. Package tracer
// brings it to the host, and package inventory says which applications are concerned.
package trace
