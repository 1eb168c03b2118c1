// Package witness has other ways to learn what the plugin reports of programs that use an RDMA device: iproute2's rdma for the objects
// that they hold, bpftrace for the events that they get, and the kernel's log. Tests in guests compare both.
package witness
