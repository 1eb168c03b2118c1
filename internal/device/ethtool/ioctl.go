package ethtool

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ethtoolCommand runs an ethtool command on an interface. data begins with the number of the
// command, and receives the answer of the kernel.
type ethtoolCommand func(data []byte) error

// ifreq is struct ifreq of netdevice(7) with a pointer. On 32-bit machines it is larger than the
// kernel's struct; the kernel does not touch the end.
type ifreq struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [24 - unsafe.Sizeof(uintptr(0))]byte
}

// openSocket opens a socket for ioctls. A Unix socket suffices, since the kernel handles
// SIOCETHTOOL for sockets of all families (sock_do_ioctl in net/socket.c), and it needs no
// internet protocol, which a sandbox may forbid.
func openSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	return fd, os.NewSyscallError("open Unix socket", err)
}

// commandFor returns a function that runs commands on an interface. The name must be valid (checkName).
func commandFor(fd int, name string) ethtoolCommand {
	return func(data []byte) error {
		request := ifreq{data: unsafe.Pointer(&data[0])}
		copy(request.name[:unix.IFNAMSIZ-1], name)
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 {
			return errno
		}
		return nil
	}
}

// reserveMemory returns memory for an answer of size bytes, outside Go's heap and followed by a
// page without write access. Kernels before 6.19, and stable kernels before January 2026, write as
// many statistics as the driver has at that moment, not as many as there is space for
// (net/ethtool/ioctl.c; changed by commit 7b07be1ff1cb). If the driver gets more queues between two
// commands, the kernel stops at that page with EFAULT instead of overwriting other memory.
func reserveMemory(size int) (memory []byte, release func(), err error) {
	page := os.Getpagesize()
	whole := (size+page-1)/page*page + page
	mapped, err := unix.Mmap(-1, 0, whole, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, nil, fmt.Errorf("reserve %d bytes: %w", whole, err)
	}
	release = func() { _ = unix.Munmap(mapped) } // fails only for an address that is not mapped
	if err := unix.Mprotect(mapped[whole-page:], unix.PROT_NONE); err != nil {
		release()
		return nil, nil, fmt.Errorf("protect the end of %d bytes: %w", whole, err)
	}
	return mapped[:size:size], release, nil
}
