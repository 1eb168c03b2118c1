// Package drivers is the one table of what each kernel driver for RDMA devices,
// with its provider of libibverbs, gives the plugin and is asked by it. The
// documents that speak of drivers are made from it, and `rdma-events doctor
// -hardware` asks it what a probe would move. It is pure.
//
// The facts were read in rdma-core 65 and in the drivers of Linux 6.1, 6.12 and
// 7.3 (drivers/infiniband, and the network drivers below them); where releases
// differ the cell says so.
package drivers
