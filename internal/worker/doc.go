// Package worker is the process border: the contract between host and worker
// (go-plugin over gRPC), the worker's server, the host's client, and the
// supervisor that keeps one worker per device running. Protobuf types do not
// leave it.
package worker
