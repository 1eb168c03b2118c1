// Package inventory assigns RDMA objects and events to applications: which application holds which objects of a device (rdma_app), which
// had an error event and has not read it (rdma_app_event, rdma_app_async), and which hangs in a destroy (rdma_app_hang). Package ebpf
// decides that a thread hangs, and this package decides when the hang has ended.
//
// A Picture computes these points from the object lists of the workers and the updates of the tracer (package trace). It reads no files and
// has no lock. A Keeper (keeper.go) maintains a Picture for the host process: it receives data from the goroutines of the workers and the
// tracer, and looks up the processes of threads (package identity) in a goroutine of its own.
package inventory
