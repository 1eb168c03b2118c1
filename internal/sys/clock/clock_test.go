package clock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// readingsWith returns a function that reads clocks. CLOCK_MONOTONIC is behind CLOCK_REALTIME by epoch, and behind
// CLOCK_BOOTTIME by an hour. Each reading takes 1 µs and, in addition, the pause of its number in pauses.
func readingsWith(epoch int64, pauses map[int]time.Duration) func(id int32) int64 {
	now, n := int64(time.Hour), 0
	return func(id int32) int64 {
		now += int64(time.Microsecond) + pauses[n].Nanoseconds()
		n++
		switch id {
		case unix.CLOCK_REALTIME:
			return epoch + now
		case unix.CLOCK_BOOTTIME:
			return int64(time.Hour) + now
		}
		return now
	}
}

func TestClocksAreReadAtOneMoment(t *testing.T) {
	const epoch, pause = 1_700_000_000_000_000_000, 1500 * time.Millisecond
	for name, pauses := range map[string]map[int]time.Duration{
		"undisturbed":                       nil,
		"preempted after the wall clock":    {2: pause},
		"preempted before the wall clock":   {1: pause},
		"preempted twice":                   {1: pause, 5: pause},
		"preempted least at the third time": {1: pause, 5: pause, 8: 100 * time.Microsecond},
	} {
		t.Run(name, func(t *testing.T) {
			wall, mono := readTogether(unix.CLOCK_REALTIME, unix.CLOCK_MONOTONIC, readingsWith(epoch, pauses))
			require.InDelta(t, epoch, wall-mono, float64(200*time.Microsecond))
			require.InDelta(t, time.Hour, readSuspended(readingsWith(epoch, pauses)), float64(200*time.Microsecond))
		})
	}
}

func TestPreemptedClocksAreReadThreeTimesAtMost(t *testing.T) {
	reads := 0
	readTogether(unix.CLOCK_REALTIME, unix.CLOCK_MONOTONIC, func(int32) int64 { reads++; return int64(reads) * int64(time.Second) })
	require.Equal(t, 9, reads)
}

// CLOCK_BOOTTIME is read in the first half of the time between the two readings of CLOCK_MONOTONIC.
func TestHostThatWasNeverSuspendedHasNoNegativeTime(t *testing.T) {
	times := []int64{100, 110, 300}
	require.Zero(t, readSuspended(func(int32) int64 {
		now := times[0]
		times = times[1:]
		return now
	}))
}
