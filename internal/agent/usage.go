package agent

import (
	"os"

	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/clock"
	"rdma_events/internal/sys/process"
	"rdma_events/internal/telemetry/measure"
)

// readUsage returns the resource usage of this process. start is when it started, in ns of CLOCK_BOOTTIME.
func readUsage(start int64) measure.Usage {
	u := measure.Usage{Uptime: clock.Boot() - start}
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) == nil {
		u.CPU = r.Utime.Nano() + r.Stime.Nano()
	}
	u.RSS = int64(process.Resident(os.Getpid()))
	return u
}
