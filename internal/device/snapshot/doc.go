// Package snapshot collects the present attributes, GIDs and counters of an RDMA device for a
// report. The worker program takes a snapshot and prints each part at once, since any call may
// hang or crash the process. The host assembles the snapshot from the printed parts.
package snapshot
