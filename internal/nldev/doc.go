// Package nldev asks the kernel by RDMA netlink (rdma_netlink.h, as rdma(8)
// does) which processes and kernel modules use a device. It needs no privilege
// and opens no device.
//
// It lists protection domains, not queue pairs as `rdma resource show qp` does.
// For each queue pair the kernel asks the driver (fill_res_qp_entry_query in
// drivers/infiniband/core/nldev.c). With most drivers that is a command to the
// device, and on a busy host there would be thousands of them. A protection
// domain lists its owner, and the number of objects in it, without a command.
package nldev
