package verbs

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// The errors that callers act upon; test with errors.Is.
var (
	// ErrClosed is returned by every call on a closed Device or Probe.
	ErrClosed = os.ErrClosed
	// ErrStuck is returned by Close when the library did not let go before the
	// deadline. The process holds the device until it exits, and should.
	ErrStuck = errors.New("the library does not let go of the device")
	// ErrResolving is an ErrStuck of a Close that did not wait: a probe is having its
	// address resolved, for which the kernel gives the network a second. That is no
	// fault of the library.
	ErrResolving = fmt.Errorf("the kernel is resolving an address of the device: %w", ErrStuck)
	// ErrNoLibrary: libibverbs.so.1 or a symbol of it is missing.
	ErrNoLibrary = errors.New("libibverbs is not usable")
	// ErrNoDevice: no device of that name, or it has been removed.
	ErrNoDevice = errors.New("no such RDMA device")
	// ErrPermission: the device node may not be opened.
	ErrPermission = os.ErrPermission
	// ErrExcludedNetns: the device belongs to another network namespace and the
	// RDMA subsystem is in exclusive mode (rdma-system(8)).
	ErrExcludedNetns = errors.New("the device is in another network namespace")
	// ErrUnsupported: the device, port or driver cannot do what was asked.
	ErrUnsupported = errors.ErrUnsupported
	// ErrRecovering: the driver lets nobody open the device now. It may be in error
	// state, between a fatal error and its recovery.
	ErrRecovering = errors.New("the device cannot be opened now")
	// ErrLimit: a resource limit (locked memory, descriptors, rdma cgroup) was hit.
	ErrLimit = errors.New("resource limit reached")
)

// FromErrno adds the error that callers act upon to an errno of libibverbs, the kernel or sysfs.
func FromErrno(errno unix.Errno) error {
	switch errno {
	case unix.EACCES, unix.EPERM:
		return errno // errors.Is(EACCES or EPERM, os.ErrPermission) holds
	case unix.ENODEV, unix.ENXIO, unix.EIO:
		// EIO is what a context answers whose device was removed under it.
		return fmt.Errorf("%w: %w", ErrNoDevice, errno)
	case unix.ENOMEM, unix.EAGAIN, unix.ENOSPC, unix.EMFILE, unix.ENFILE:
		return fmt.Errorf("%w: %w", ErrLimit, errno)
	}
	return errno
}

// OpError says which operation failed on what.
type OpError struct {
	Op     string // the verb, as in "ibv_open_device"
	Device string
	Port   int // 0: not about a port
	Err    error
}

// Error returns "<op> <device>[ port <port>]: <cause>".
func (e *OpError) Error() string {
	if e.Port != 0 {
		return e.Op + " " + e.Device + " port " + strconv.Itoa(e.Port) + ": " + e.Err.Error()
	}
	return fmt.Sprintf("%s %s: %v", e.Op, e.Device, e.Err)
}

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }

// NewOpError returns an OpError, or nil if err is nil.
func NewOpError(op, device string, port int, err error) error {
	if err == nil {
		return nil
	}
	return &OpError{Op: op, Device: device, Port: port, Err: err}
}
