// Package inventory knows which application holds which objects of a device (rdma_app), which had an error event and has not read it
// (rdma_app_event, rdma_app_async), and which hangs in a destroy (rdma_app_hang): package ebpf decides that a
// thread hangs, this one when it no longer does.
//
// A Picture makes these points of what workers list and of what the tracer sees (package trace). It
// reads nothing itself, and has no lock. A Keeper, in keeper.go, keeps a Picture for the host: it takes what workers and the tracer see
// from their goroutines, and looks up in one of its own whose the threads are (package identity).
package inventory
