// Package worker is the contract between the host and the worker of one RDMA device: what the host asks for, what the
// worker sends, and both as protobuf, whose types do not leave it. Package process runs it.
package worker
