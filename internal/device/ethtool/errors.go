package ethtool

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The errors that callers act upon. Test for them with errors.Is.
var (
	// ErrNoInterface: no interface of that name in this network namespace, or its driver has
	// detached it for now, as during a reset: the kernel says ENODEV for both
	// (ethnl_ops_begin in net/ethtool/netlink.c).
	ErrNoInterface = errors.New("no such network interface")
	// ErrUnsupported: the driver has no answer, the kernel has no ethtool netlink (before
	// Linux 5.6), or the process may not open such sockets (RestrictAddressFamilies= of
	// systemd answers EAFNOSUPPORT).
	ErrUnsupported = errors.ErrUnsupported
	// ErrPermission: a security module or a filter of system calls refused.
	ErrPermission = os.ErrPermission
)

// classify adds to an errno the error above that stands for it. EOPNOTSUPP, EPERM and EACCES
// are ErrUnsupported and ErrPermission by themselves (syscall.Errno.Is).
func classify(err error) error {
	switch {
	case errors.Is(err, unix.ENODEV):
		return fmt.Errorf("%w: %w", ErrNoInterface, err)
	case errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.EPROTONOSUPPORT):
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return err
}

// checkName refuses a name that no interface can have, since the ioctl would cut it and ask
// about another interface.
func checkName(name string) error {
	if name == "" || len(name) >= unix.IFNAMSIZ {
		return ErrNoInterface
	}
	return nil
}
