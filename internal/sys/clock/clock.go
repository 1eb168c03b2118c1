package clock

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Monotonic reads CLOCK_MONOTONIC, in ns. It may be called concurrently.
func Monotonic() int64 { return read(unix.CLOCK_MONOTONIC) }

// Boot reads CLOCK_BOOTTIME, which also counts while the host sleeps, in ns. It may be
// called concurrently.
func Boot() int64 { return read(unix.CLOCK_BOOTTIME) }

// BootID returns the identifier of this boot (random(4)). Times of CLOCK_BOOTTIME can be compared only within one boot.
func BootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot ID: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// maxReadingTime is the maximum time between two readings of a clock if the process is not
// preempted between them.
const maxReadingTime = 50 * time.Microsecond

// Both reads CLOCK_REALTIME and CLOCK_MONOTONIC at the same moment, in ns. A preemption
// between two simple readings would make the first value too old, as if the wall clock had
// been set back. Both therefore repeats the readings after a preemption, up to three
// attempts in all. It may be called concurrently.
func Both() (wall, mono int64) {
	return readTogether(unix.CLOCK_REALTIME, unix.CLOCK_MONOTONIC, read)
}

// WallAndBoot reads CLOCK_REALTIME and CLOCK_BOOTTIME at the same moment, like Both.
func WallAndBoot() (wall, boot int64) {
	return readTogether(unix.CLOCK_REALTIME, unix.CLOCK_BOOTTIME, read)
}

// Suspended returns how long the host has been suspended since its boot, in ns. It reads
// the two clocks like Both, and may be called concurrently.
func Suspended() int64 { return readSuspended(read) }

func readSuspended(read func(id int32) int64) int64 {
	boot, mono := readTogether(unix.CLOCK_BOOTTIME, unix.CLOCK_MONOTONIC, read)
	return max(0, boot-mono) // on a host that has never been suspended, the inaccuracy of the readings may make it negative
}

// readTogether reads two clocks at the same moment.
func readTogether(one, other int32, read func(id int32) int64) (first, second int64) {
	const attempts = 3
	var shortest int64
	for i := range attempts {
		before := read(other)
		now := read(one)
		took := read(other) - before
		if i == 0 || took < shortest {
			shortest, first, second = took, now, before+took/2
		}
		if shortest <= int64(maxReadingTime) {
			break
		}
	}
	return first, second
}

func read(id int32) int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		panic(fmt.Sprintf("clock %d: %v", id, err)) // these clocks exist on every Linux
	}
	return t.Nano()
}
