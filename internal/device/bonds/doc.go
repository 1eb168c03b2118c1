// Package bonds keeps a table of the bonds and teams of this process' network namespace, by rtnetlink (rtnetlink(7)), and
// reports how many legs each has and how many of them are up. It needs no privilege.
//
// The kernel sends a message for each change. The package requests a list of all network devices only at the start and after
// messages were lost: for the list the kernel takes its RTNL lock, of which the whole host has one, and which a device with
// hanging firmware may hold.
package bonds
