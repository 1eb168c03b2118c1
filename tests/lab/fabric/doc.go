// Package fabric has the tests of probes between hosts. All hosts are in one lab guest: each has its own RDMA device, its own
// plugin and worker, and a loopback address for their conversations, or a network namespace in a management network. What the tests
// know of a plugin is its configuration and what it prints. The tests have the build tag guest. make test runs
// TestASeveredWayIsSeenByAllWhoUseIt in a short form, make test-push TestSoakOfManagementNetwork in a short form in its turn, and make test-full
// all of them in its parts fabric-lab, fabric-faults, fabric-connections and fabric-management.
package fabric
