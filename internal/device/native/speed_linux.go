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

// speedRetryDelay is the time after a refusal before a port is asked for its speed again.
const speedRetryDelay = 15 * time.Minute

// maxSpeed is the largest plausible answer of ibv_query_port_speed(3), in its units of 100 Mb/s.
const maxSpeed = 1_000_000

// portSpeeds records how the device answered queries of its ports' speeds. The mutex nativeDevice.querying guards it.
type portSpeeds struct {
	unsupported bool
	retryAt     map[int]int64 // by port, CLOCK_MONOTONIC ns
}

// queryEffectiveGbps returns the current data rate of a port in Gbit/s, or 0 if it is unknown. libibverbs supports the query since
// rdma-core 62, and the kernel if the driver has query_port_speed (mlx5 and efa). InfiniBand ports are not queried: the answer would
// be computed from the attributes of ibv_query_port, with up to five further commands (mlx5_ib_query_port_speed in
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
		s.retryAt[port] = clock.Monotonic() + int64(speedRetryDelay)
		return 0
	case speed > maxSpeed:
		return 0
	}
	return float64(speed) / 10
}
