// Package bonds keeps a table of the bonds and teams of this process' network namespace, by rtnetlink (rtnetlink(7)), and
// reports how many legs each has and how many of them are up. It needs no privilege.
//
// The kernel sends each change by itself. It is asked for all network devices only at the start and after messages were lost:
// for that answer it takes its RTNL lock, which is one for the whole host and which a device whose firmware hangs may hold.
package bonds
