package hotplug

import (
	"fmt"

	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/netlink"
)

// kernelGroup is the multicast group of the kernel's own messages; group 2
// carries the messages that udev makes from them.
const kernelGroup = 1

// SubscribeUevents subscribes to the kernel's uevents (netlink(7),
// NETLINK_KOBJECT_UEVENT). It needs no privilege. In a network namespace that
// belongs to a user namespace it succeeds, but no message ever comes.
func SubscribeUevents() (Source, error) {
	s, err := netlink.Subscribe(unix.NETLINK_KOBJECT_UEVENT, kernelGroup)
	if err != nil {
		return nil, fmt.Errorf("subscribe to uevents: %w", err)
	}
	return s, nil
}

// initialUserNamespace is the inode of the initial user namespace (PROC_USER_INIT_INO in
// include/linux/proc_ns.h). No other namespace can have this inode.
const initialUserNamespace = 0xEFFFFFFD

// UeventsReach reports whether the kernel's uevents reach this process' network
// namespace. They do if that namespace belongs to the initial user namespace
// (uevent_net_init in lib/kobject_uevent.c). UeventsReach also returns false if the
// owner cannot be determined, as in a user namespace below the owner's.
func UeventsReach() bool {
	own, err := unix.Open("/proc/self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(own) }()
	users, err := unix.IoctlRetInt(own, unix.NS_GET_USERNS)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(users) }()
	var st unix.Stat_t
	return unix.Fstat(users, &st) == nil && st.Ino == initialUserNamespace
}
