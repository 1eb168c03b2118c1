// Package nldev reads by RDMA netlink (rdma_netlink.h, as rdma(8) does) which
// processes and kernel modules use a device, how many objects it has, a list of
// its objects, the counters of a port, and the network devices of the ports. It needs no privilege and opens no
// device.
//
// QueryUse lists protection domains, not queue pairs as `rdma resource show qp`
// does. For each queue pair the kernel asks the driver (fill_res_qp_entry_query in
// drivers/infiniband/core/nldev.c). With most drivers that is a command to the
// device, and a busy host has thousands of queue pairs. The entry of a protection
// domain has its owner, and the number of objects in it, without a command.
//
// Dump lists objects of one kind, queue pairs with their states, and refuses lists
// that would delay the device. Holders determines who holds each object.
package nldev
