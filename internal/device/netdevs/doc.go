// Package netdevs keeps a table of some network devices of this process' network namespace, by rtnetlink (rtnetlink(7)): of bonds and
// teams with their legs, and of representors. It needs no privilege.
//
// The kernel sends a message for each change. The package requests a list of all network devices only at the start and after
// messages were lost: for the list the kernel takes its RTNL lock, of which the whole host has one, and which a device with
// hanging firmware may hold.
package netdevs
