// Package sysfs reads what /sys/class/infiniband shows of RDMA devices and their ports.
package sysfs
