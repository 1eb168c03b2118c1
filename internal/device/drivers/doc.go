// Package drivers is the one table of the kernel drivers for RDMA devices, each
// with its provider of libibverbs: the features that a driver gives the plugin,
// and the commands that the plugin's calls cost its device. The documents about
// drivers are generated from this table, and `rdma-events doctor -hardware`
// reads in it which counters a probe would move. The package is pure.
//
// The facts were read in rdma-core 65 and in the drivers of Linux 6.1, 6.12 and
// 7.3 (drivers/infiniband, and the network drivers below them). Where releases
// differ, the cell names them. What a snapshot costs was read in 6.1 and 6.12, and in
// newer ones for mlx5's, mana's and ionic's counters only; bnxt_re's counters of 7.3 as
// they were sent for review.
package drivers
