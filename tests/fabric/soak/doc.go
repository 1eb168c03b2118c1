// Package soak runs two to eight hosts for simulated hours while their processes, workers, lists, keys and clocks and the TCP
// network between them fail, and checks that no host blames a network, a NIC or a host that is well. The hosts have the real
// Keeper and the real TLS and gRPC of package exchange, over connections in memory. Their workers and the RDMA network are models,
// which do not depend on TCP. The clock is that of testing/synctest.
package soak
