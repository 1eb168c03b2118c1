package main

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// refuseHugePages prevents the kernel from backing a small heap with pages of
// 2 MiB, as it does by default if transparent huge pages are set to "always". With
// them, each of 8 workers used 5 to 7 MiB more. Workers inherit the setting
// (prctl(2)). The error is ignored, because a kernel without huge pages refuses
// the call and does not need it.
func refuseHugePages() { _ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0) }

// timerSlack is the time in ns by which the kernel may delay the end of a timed wait. The default is 50 µs (prctl(2)).
//
// Go's runtime has a thread that sleeps for 20 µs at a time while any goroutine runs (sysmon in runtime/proc.go).
// Therefore a plugin that works for a millisecond is woken ten times. With a longer slack these sleeps take longer.
// Go's scheduler also sleeps for 3 µs before it takes a goroutine from a busy thread, so the slack must not be much
// longer than the acceptable delay of an event. No result of the plugin depends on such an exact timer; threads that
// probe restore the default.
const timerSlack = 500_000

// maxProcs is the most threads of the plugin that run Go code at a time. On more of them, Go's scheduler wakes threads that find
// nothing to do.
const maxProcs = 2

// limitWakeUps reduces the number of wake-ups while the process has little to do. A thread inherits its timer slack
// from the thread that creates it, and Go's runtime creates some threads before main, so the process executes its own
// program once more. Workers inherit the slack too. If the slack cannot be set or the program cannot be executed, for
// example because its file was replaced, the process continues without it.
func limitWakeUps() {
	runtime.GOMAXPROCS(min(maxProcs, runtime.NumCPU()))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0); err != nil || slack >= timerSlack {
		return
	}
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, timerSlack, 0, 0, 0); err != nil {
		return
	}
	// A thread with a real-time policy has no slack, whatever value is set.
	if slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0); err != nil || slack < timerSlack {
		return
	}
	// The kernel names the process after the path, so this is not /proc/self/exe.
	if program, err := os.Executable(); err == nil {
		_ = unix.Exec(program, os.Args, os.Environ())
	}
}
