package clock

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Monotonic reads CLOCK_MONOTONIC, in ns. It may be called concurrently.
func Monotonic() int64 { return read(unix.CLOCK_MONOTONIC) }

// Boot reads CLOCK_BOOTTIME, which also counts while the host sleeps, in ns. It may be
// called concurrently.
func Boot() int64 { return read(unix.CLOCK_BOOTTIME) }

// together is the most time between two readings of a clock in a process that was not
// preempted between them.
const together = 50 * time.Microsecond

// Both reads CLOCK_REALTIME and CLOCK_MONOTONIC at one moment, in ns. If the process were
// preempted between two simple readings, the first value would be old, as if the wall
// clock had been set back. So Both repeats the readings after a preemption, at most three
// times in all. It may be called concurrently.
func Both() (wall, mono int64) { return both(unix.CLOCK_MONOTONIC, read) }

// WallAndBoot reads CLOCK_REALTIME and CLOCK_BOOTTIME at one moment, as Both does.
func WallAndBoot() (wall, boot int64) { return both(unix.CLOCK_BOOTTIME, read) }

// both reads CLOCK_REALTIME together with another clock.
func both(other int32, read func(id int32) int64) (wall, mono int64) {
	const attempts = 3
	var best int64
	for i := range attempts {
		before := read(other)
		now := read(unix.CLOCK_REALTIME)
		took := read(other) - before
		if i == 0 || took < best {
			best, wall, mono = took, now, before+took/2
		}
		if best <= int64(together) {
			break
		}
	}
	return wall, mono
}

func read(id int32) int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		panic(fmt.Sprintf("clock %d: %v", id, err)) // these clocks exist on every Linux
	}
	return t.Nano()
}
