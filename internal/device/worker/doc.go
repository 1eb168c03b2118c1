// Package worker defines the contract between the host and the worker of one RDMA device: the host's request, the
// worker's messages, and the conversion of both to protobuf. No protobuf type leaves the package. Package process
// runs the worker.
package worker
