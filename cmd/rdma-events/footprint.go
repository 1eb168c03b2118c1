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

// timerSlack is how much later than asked the kernel may end a timed wait, in ns. The default is 50 µs (prctl(2)).
//
// Go's runtime has a thread that, while any goroutine runs, sleeps for 20 µs at a time (sysmon in runtime/proc.go). A plugin
// that works for a millisecond is therefore woken ten times. With a longer slack these sleeps take that long. Go's scheduler also
// sleeps for 3 µs before it takes a goroutine from a thread that is busy, so that the slack must not be much longer than an event
// may take on its way. No result of the plugin depends on a timer that is this exact; threads that probe set the default again.
const timerSlack = 500_000

// maxProcs is the most threads of the plugin that run Go code at a time. On more of them, Go's scheduler wakes threads that find
// nothing to do.
const maxProcs = 2

// limitWakeUps makes the process wake up less often while it has little to do. A thread inherits its timer slack from the thread
// that made it, and Go's runtime makes some before main, so the process executes its own program again, once. Workers inherit
// the slack too. If it cannot be set or the program cannot be executed, for example because its file was replaced, all else
// works as well.
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
	// A thread with a real-time policy has no slack, whatever is set.
	if slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0); err != nil || slack < timerSlack {
		return
	}
	// The path, not /proc/self/exe: the kernel names the process after it.
	if program, err := os.Executable(); err == nil {
		_ = unix.Exec(program, os.Args, os.Environ())
	}
}
