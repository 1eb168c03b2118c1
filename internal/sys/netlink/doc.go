// Package netlink talks to the kernel over netlink sockets (netlink(7)): it sends requests, receives
// the answers and reads attributes. Other packages interpret the messages of the protocol families.
//
// The kernel handles a request before send(2) returns. A request that has to wait for a lock or for a
// device therefore waits in send(2), where no deadline can end the wait.
package netlink
