// Package netlink asks the kernel over netlink sockets (netlink(7)): it sends requests, finds
// their answers and reads attributes. What they mean is for the packages of the families.
//
// The kernel handles a request before send(2) returns, so that a request which has to wait for
// a lock or for a device waits there, where no deadline ends the wait.
package netlink
