//go:build linux && cgo

package native

// #include "native.h"
import "C"

import (
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/clock"
)

// speedPause is how long a port is not asked for its speed after a refusal.
const speedPause = 15 * time.Minute

// maxSpeed bounds an answer of ibv_query_port_speed(3), in its units of 100 Mb/s. A greater one is no speed of a port.
const maxSpeed = 1_000_000

// portSpeeds is what the device has answered when it was asked for the speed of its ports. The querying mutex guards it.
type portSpeeds struct {
	unsupported bool
	retryAt     map[int]int64 // by port, CLOCK_MONOTONIC ns
}

// queryEffectiveGbps returns what a port can carry now, in Gbit/s, or 0 if that is unknown. libibverbs answers since rdma-core 62,
// and the kernel where the driver has query_port_speed (mlx5 and efa). A port of InfiniBand is not asked: its answer is made
// of the attributes of ibv_query_port again, by up to five commands (mlx5_ib_query_port_speed in
// drivers/infiniband/hw/mlx5/main.c). The caller holds querying.
func (d *nativeDevice) queryEffectiveGbps(port int, layer verbs.LinkLayer) float64 {
	s := &d.speeds
	if s.unsupported || layer == verbs.LinkInfiniBand || clock.Monotonic() < s.retryAt[port] {
		return 0
	}
	var speed C.uint64_t
	r := C.native_query_port_speed(d.c, C.int(port), &speed)
	switch errno := unix.Errno(r.err); {
	case errno == unix.EOPNOTSUPP, errno == unix.EPROTONOSUPPORT, errno == unix.ENOTTY, errno == unix.ENOSYS:
		s.unsupported = true
		return 0
	case errno != 0:
		if s.retryAt == nil {
			s.retryAt = map[int]int64{}
		}
		s.retryAt[port] = clock.Monotonic() + int64(speedPause)
		return 0
	case speed > maxSpeed:
		return 0
	}
	return float64(speed) / 10
}
