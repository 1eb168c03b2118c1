// Package nldev asks the kernel, by RDMA netlink (rdma_netlink.h, as rdma(8)
// does), who uses a device. It needs no privilege and opens no device.
//
// It lists protection domains and not queue pairs, as `rdma resource show qp`
// would: for each queue pair the kernel asks the driver (fill_res_qp_entry_query
// in drivers/infiniband/core/nldev.c), and with most that is a command of the
// device, of which a busy host would then make thousands. A protection domain
// says its owner, and how many objects are in it, without one.
package nldev
