package native

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"rdma_events/internal/device/verbs"
)

// toError converts an errno of the C code to an error.
func toError(errno unix.Errno) error {
	if errno == verbs.NoErrno {
		return verbs.ErrNoErrno
	}
	return errno
}

// toVerbsError converts an errno of the C code to an error, as verbs.FromErrno does.
func toVerbsError(errno unix.Errno) error {
	if errno == verbs.NoErrno {
		return verbs.ErrNoErrno
	}
	return verbs.FromErrno(errno)
}

// probeError converts the errno of a verb that creates a part of a probe on an existing device.
// Most errors mean that the port cannot use the method now: its link or address is gone
// (ENETUNREACH, EINVAL, ENODEV of a GID), the driver lacks that type of queue pair, or the
// device rejects the command (EIO).
func probeError(errno unix.Errno) error {
	switch errno {
	case unix.ENOMEM, unix.EAGAIN, unix.ENOSPC, unix.EMFILE, unix.ENFILE, unix.EACCES, unix.EPERM:
		return toVerbsError(errno)
	}
	return fmt.Errorf("%w: %w", verbs.ErrUnsupported, toError(errno))
}

// mtuBytes converts enum ibv_mtu: 1 is 256 bytes, 5 is 4096.
func mtuBytes(mtu int) int {
	if mtu < 1 || mtu > 5 {
		return 0
	}
	return 128 << mtu
}

// speedNDR is the largest value of active_speed. The field has one byte, and the kernel stores
// NDR in it for every faster speed (copy_port_attr_to_resp in
// drivers/infiniband/core/uverbs_std_types_device.c).
const speedNDR = 128

// linkRate converts active_width and active_speed of struct ibv_port_attr
// (rdma-core's ibv_devinfo has the tables) to "4x" and Gb/s over all lanes.
func linkRate(width int, speed uint32) (string, float64) {
	lanes := map[int]int{1: 1, 2: 4, 4: 8, 8: 12, 16: 2}[width]
	perLane := map[uint32]float64{
		1: 2.5, 2: 5, 4: 10, 8: 10.3125, 16: 14.0625, 32: 25.78125, 64: 50, 128: 100, 256: 200,
	}[speed]
	if lanes == 0 {
		return "", 0
	}
	return strconv.Itoa(lanes) + "x", float64(lanes) * perLane
}
