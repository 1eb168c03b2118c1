// Package inspect is what one look at this host finds of its RDMA devices: what the worker and
// tracer programs answer, and what the host's files say. Each fact has one function, which asks
// for that fact alone. Packages doctor, hardware and report render what it finds.
package inspect
