// Package nldev asks the kernel by RDMA netlink (rdma_netlink.h, as rdma(8)
// does) which processes and kernel modules use a device, how many objects it
// has, for a list of them, and for the counters of a port. It needs no privilege
// and opens no device.
//
// Of lists protection domains, not queue pairs as `rdma resource show qp` does.
// For each queue pair the kernel asks the driver (fill_res_qp_entry_query in
// drivers/infiniband/core/nldev.c). With most drivers that is a command to the
// device, and on a busy host there would be thousands of them. A protection
// domain lists its owner, and the number of objects in it, without a command.
//
// Dump lists objects of one kind, queue pairs with their states too, and refuses
// lists that would hold up the device. Holders finds out who holds each of them.
package nldev
