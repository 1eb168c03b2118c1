// Package ethtool asks the kernel why a network interface has no link and what its forward error correction has counted, by ethtool
// netlink, and for its driver's statistics, by ioctl. None needs a capability. All concern the network
// namespace of the calling thread.
//
// The kernel holds the RTNL lock, which is one for the whole host, while the driver answers. It
// does so inside send(2) or ioctl(2), where no deadline and no signal ends the wait. So a call
// lasts for as long as another process holds the lock, or as the driver's firmware does not
// answer. Only the caller can judge when to ask, and must not wait for the answer where it has
// to do something else.
package ethtool
