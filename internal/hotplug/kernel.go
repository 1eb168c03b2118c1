package hotplug

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// kernelGroup is the multicast group of the kernel's own messages; group 2
	// carries the messages that udev makes from them.
	kernelGroup = 1
	// messageSize is larger than any uevent: 2 KiB of variables
	// (UEVENT_BUFFER_SIZE) after a head with the path.
	messageSize = 8 << 10
)

// KernelUevents subscribes to the kernel's uevents (netlink(7),
// NETLINK_KOBJECT_UEVENT). It needs no privilege. In a network namespace that
// belongs to a user namespace it succeeds, but no message ever comes.
func KernelUevents() (Source, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("open uevent socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelGroup}); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("bind uevent socket: %w", err)
	}
	return newKernelUevents(fd), nil
}

// initialUsers is the inode of the initial user namespace (PROC_USER_INIT_INO in
// include/linux/proc_ns.h). No other namespace can have it.
const initialUsers = 0xEFFFFFFD

// UeventsReach reports whether the kernel's uevents reach this process' network
// namespace. They do if that namespace belongs to the initial user namespace
// (uevent_net_init in lib/kobject_uevent.c). UeventsReach also returns false if this
// cannot be determined, as in a user namespace below that of the network namespace.
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
	return unix.Fstat(users, &st) == nil && st.Ino == initialUsers
}

// kernelUevents is a bound uevent socket. It does not check the sender of a message:
// a sender needs CAP_NET_ADMIN.
type kernelUevents struct {
	file *os.File
	buf  []byte
}

// newKernelUevents takes ownership of fd, which must be non-blocking: then os.NewFile
// gives it to Go's poller, so that Close wakes Receive.
func newKernelUevents(fd int) *kernelUevents {
	return &kernelUevents{file: os.NewFile(uintptr(fd), "uevents"), buf: make([]byte, messageSize)}
}

func (k *kernelUevents) Receive() ([]byte, error) {
	n, err := k.file.Read(k.buf)
	if errors.Is(err, unix.ENOBUFS) {
		return nil, ErrOverrun
	}
	if err != nil {
		return nil, fmt.Errorf("receive uevent: %w", err)
	}
	return k.buf[:n], nil
}

func (k *kernelUevents) Close() error { return k.file.Close() }
