// Package fabric has the tests of probes between hosts. All hosts are in one lab guest: each has its own RDMA device, its own
// plugin and worker, and a loopback address for their conversations. What the tests know of a plugin is its configuration and
// what it prints. The tests have the build tag guest. make test runs the first of them in a short form, make test-full PART=fabric-lab,
// PART=fabric-faults and PART=fabric-connections all of them.
package fabric
