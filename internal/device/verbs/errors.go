package verbs

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// The errors that callers act upon. Test for them with errors.Is.
var (
	// ErrClosed is returned by every call on a closed Device or Probe.
	ErrClosed = os.ErrClosed
	// ErrStuck is returned by Close if the library did not release the device in
	// time. The process then holds the device until it exits, and should exit.
	ErrStuck = errors.New("the library does not let go of the device")
	// ErrResolving is the ErrStuck of a Close that did not wait, because the kernel
	// is resolving the address of a probe. The kernel waits up to one second for the
	// network. The library is not at fault.
	ErrResolving = fmt.Errorf("the kernel is resolving an address of the device: %w", ErrStuck)
	// ErrNoLibrary: libibverbs.so.1 or a symbol of it is missing.
	ErrNoLibrary = errors.New("libibverbs is not usable")
	// ErrNoDevice: no device has that name, or the kernel has removed it. The errno of a
	// command cannot prove a removal: firmware and drivers also return EIO and ENODEV for a
	// device that is present.
	ErrNoDevice = errors.New("no such RDMA device")
	// ErrPermission: the process may not open the device node.
	ErrPermission = os.ErrPermission
	// ErrExcludedNetns: the device belongs to another network namespace and the
	// RDMA subsystem is in exclusive mode (rdma-system(8)).
	ErrExcludedNetns = errors.New("the device is in another network namespace")
	// ErrUnsupported: the device, port or driver does not support the operation.
	ErrUnsupported = errors.ErrUnsupported
	// ErrNoProvider: libibverbs has provider libraries, but none for the device's driver, and no
	// process uses the device. No program can open the device with this libibverbs.
	ErrNoProvider = errors.New("libibverbs has no provider library for it")
	// ErrNeverFabric: the device lacks the queue pair types with which hosts probe each other.
	ErrNeverFabric = fmt.Errorf("no probes between hosts on this kind of device: %w", ErrUnsupported)
	// ErrNoFabric: the FabricEndpoint that an order names no longer exists.
	ErrNoFabric = errors.New("the port has no such queues for probes between hosts")
	// ErrRecovering: the driver currently refuses to open the device. The device may be in
	// error state, between a fatal error and its recovery.
	ErrRecovering = errors.New("the device cannot be opened now")
	// ErrLimit: a resource limit (locked memory, descriptors, rdma cgroup) was hit.
	ErrLimit = errors.New("resource limit reached")
)

// FromErrno wraps an errno of libibverbs, the kernel or sysfs in the matching error above.
// It returns other errnos unchanged.
func FromErrno(errno unix.Errno) error {
	switch errno {
	case unix.EACCES, unix.EPERM:
		return errno // errors.Is(EACCES or EPERM, os.ErrPermission) holds
	case unix.ENODEV, unix.ENXIO:
		return fmt.Errorf("%w: %w", ErrNoDevice, errno)
	case unix.ENOMEM, unix.EAGAIN, unix.ENOSPC, unix.EMFILE, unix.ENFILE:
		return fmt.Errorf("%w: %w", ErrLimit, errno)
	}
	return errno
}

// Shortage returns which resource of the process or the host err reports as exhausted, and what
// to raise; "" for other errors. A read that fails for a shortage says nothing about the object
// that was to be read.
func Shortage(err error) string {
	switch {
	case errors.Is(err, unix.EMFILE):
		return "the process may open no more files; raise RLIMIT_NOFILE (systemd: LimitNOFILE)"
	case errors.Is(err, unix.ENFILE):
		return "the host may open no more files; raise the sysctl fs.file-max"
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.ENOBUFS):
		return "the kernel has no memory for it; look at the host's free memory, and at the memory limit of the service or container"
	}
	return ""
}

// OpError is the error of an operation on a device or port.
type OpError struct {
	Op     string // the verb or system call, as in "ibv_open_device"
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
