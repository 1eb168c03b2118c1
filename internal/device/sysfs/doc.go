// Package sysfs reads the attributes of RDMA devices and their ports below /sys/class/infiniband.
package sysfs
