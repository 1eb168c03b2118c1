package session

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// together is how close two readings of a clock are between which the process was
// not preempted.
const together = 50 * time.Microsecond

// Clocks reads CLOCK_REALTIME and CLOCK_MONOTONIC at one moment, in ns. A process that
// is preempted between the two would have an old one of the first, and look as if the
// wall clock had been set back. It reads at most three times.
func Clocks() (wall, mono int64) { return clocks(clock) }

func clocks(read func(id int32) int64) (wall, mono int64) {
	const attempts = 3
	var best int64
	for i := range attempts {
		before := read(unix.CLOCK_MONOTONIC)
		now := read(unix.CLOCK_REALTIME)
		took := read(unix.CLOCK_MONOTONIC) - before
		if i == 0 || took < best {
			best, wall, mono = took, now, before+took/2
		}
		if best <= int64(together) {
			break
		}
	}
	return wall, mono
}

func clock(id int32) int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		panic(fmt.Sprintf("clock %d: %v", id, err)) // these clocks exist on every Linux
	}
	return t.Nano()
}
