// Package neighbours runs programs of others that use RDMA devices: the examples of rdma-core and the tests of pyverbs, perftest, UCX, and
// the kernel's NVMe over RDMA. Each runs alone, beside the plugin, and beside the plugin with its tracer. What succeeds alone has to succeed
// beside the plugin, without a warning of the kernel, an alert or a hang that is none; and what the plugin reports has to be what
// the programs did. The programs are Debian's packages, which the lab fetches. The tests have the build tag guest. make test-full
// PART=neighbours runs them.
package neighbours
