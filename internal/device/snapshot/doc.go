// Package snapshot writes down what an RDMA device says of itself now. The worker program takes
// a snapshot and prints each part as soon as it has it, since any call may hang or crash the
// process; the host puts together what was printed.
package snapshot
