package ethtool

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The errors that callers handle. Test for them with errors.Is.
var (
	// ErrNoInterface means that this network namespace has no interface of that name, or that
	// its driver has detached it for now, as during a reset: the kernel returns ENODEV for both
	// (ethnl_ops_begin in net/ethtool/netlink.c).
	ErrNoInterface = errors.New("no such network interface")
	// ErrUnsupported means that the driver has no answer, that the kernel has no ethtool netlink
	// (before Linux 5.6), or that the process may not open such sockets (RestrictAddressFamilies=
	// of systemd makes it fail with EAFNOSUPPORT).
	ErrUnsupported = errors.ErrUnsupported
	// ErrPermission means that a security module or a filter of system calls refused the call.
	ErrPermission = os.ErrPermission
)

// wrapErrno wraps an errno in the corresponding error above. EOPNOTSUPP, EPERM and EACCES already match ErrUnsupported and ErrPermission
// (syscall.Errno.Is).
func wrapErrno(err error) error {
	switch {
	case errors.Is(err, unix.ENODEV):
		return fmt.Errorf("%w: %w", ErrNoInterface, err)
	case errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.EPROTONOSUPPORT):
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return err
}

// checkName returns ErrNoInterface for a name that no interface can have. The ioctl would truncate
// it and address another interface.
func checkName(name string) error {
	if name == "" || len(name) >= unix.IFNAMSIZ {
		return ErrNoInterface
	}
	return nil
}
