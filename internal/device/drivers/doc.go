// Package drivers holds the table of the kernel drivers for RDMA devices, each
// with its provider of libibverbs: the features that a driver offers the plugin,
// and the commands that the plugin's calls cost its device. The documents about
// drivers are generated from this table, and `rdma-events doctor -hardware`
// reads from it which counters a probe would move. The package is pure.
//
// The facts come from rdma-core 65 and the drivers of Linux 6.1, 6.12 and
// 7.3 (drivers/infiniband, and the network drivers below them). Where releases
// differ, the cell names them. The costs of snapshots come from 6.1 and 6.12, and from
// newer releases for the counters of mlx5, mana and ionic only. bnxt_re's counters of 7.3
// were read as they were sent for review.
package drivers
