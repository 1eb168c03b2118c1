// Package fabric has the tests of probes between hosts. All hosts are in one lab guest: each has its own RDMA device, its own
// plugin and worker, and a loopback address for their conversations. What the tests know of a plugin is its configuration and
// what it prints. The tests have the build tag guest. make test runs the shortest, make test-full PART=fabric all of them.
package fabric
