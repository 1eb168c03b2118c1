// Package worker is the contract between the host and the worker of one RDMA device: the request of the host, the
// messages of the worker, and the conversion of both to protobuf. No protobuf type leaves the package. Package
// process runs the worker.
package worker
