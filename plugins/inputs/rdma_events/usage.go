package rdma_events

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"rdma_events/internal/clock"
	"rdma_events/internal/measure"
)

// usage reads the usage of this process, which started at boot time start.
func usage(start int64) measure.Usage {
	u := measure.Usage{Uptime: clock.Boot() - start}
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) == nil {
		u.CPU = r.Utime.Nano() + r.Stime.Nano()
	}
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		u.RSS, _ = residentBytes(text, os.Getpagesize())
	}
	return u
}

// residentBytes takes the second number of proc(5)'s statm.
func residentBytes(statm []byte, pageSize int) (int64, error) {
	fields := bytes.Fields(statm)
	if len(fields) < 2 {
		return 0, fmt.Errorf("parse statm %q: too short", statm)
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parse statm: %w", err)
	}
	return pages * int64(pageSize), nil
}
