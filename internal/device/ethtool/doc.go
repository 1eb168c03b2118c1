// Package ethtool reads why a network interface has no link and the counts of its forward error
// correction, by ethtool netlink, and the statistics of its driver, by ioctl. No function needs a
// capability. All of them use the network namespace of the calling thread.
//
// While the driver answers, the kernel holds the RTNL lock, of which the whole host has one. It
// does so inside send(2) or ioctl(2), where neither a deadline nor a signal ends the wait. So a
// call lasts for as long as another process holds the lock, or as the driver's firmware does not
// answer. The caller must judge when to call, and must not call from a thread that has other
// work.
package ethtool
