// Package trace has words for what the RDMA objects of every process on the host experience: asynchronous events that
// are queued, read or thrown away, and threads that hang in the destruction of an object because an event was not
// acknowledged. A Source finds it out. The package knows nothing of how: eBPF on the kernel's ib_uverbs is one source,
// the simulator another.
package trace
