// Package trace defines the data that a tracer collects about the processes on a host that use RDMA: asynchronous events that are queued,
// read or discarded, which of them are errors, and threads that hang while they destroy an object because an event was not acknowledged. A
// Source collects the data: package ebpf from the kernel's ib_uverbs with eBPF, package simulated/applications from the simulator. Package
// tracer sends the data to the host process, and package inventory assigns it to applications.
package trace
