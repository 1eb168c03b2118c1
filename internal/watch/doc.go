// Package watch watches one open RDMA device: a reader of its asynchronous
// events, a prober per port and completion vector, a querier of port state and
// a look-out for the device's removal. It works on any verbs.Backend and knows
// no process border; what it sees comes out as Batches.
package watch
