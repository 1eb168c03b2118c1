package rig

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Hold keeps a process from dying until the test ends, like a call in the kernel
// that no signal interrupts. When the process is killed, it stops before it exits
// (ptrace(2), PTRACE_O_TRACEEXIT). Its parent cannot reap it, and further signals
// have no effect. It dies at the end of the test. The test needs the right to
// trace the process.
func Hold(t testing.TB, pid int) {
	t.Helper()
	seized, ended, release := make(chan error), make(chan error, 1), make(chan struct{})
	go func() { ended <- traceProcess(pid, seized, release) }()
	if err := <-seized; err != nil {
		t.Fatalf("hold process %d: %v", pid, err)
	}
	t.Cleanup(func() {
		_ = unix.Kill(pid, unix.SIGKILL) // the usual error: the process is gone
		close(release)
		if err := <-ended; err != nil {
			t.Errorf("hold process %d: %v", pid, err)
		}
	})
}

// traceProcess traces the first thread of the process: the process exists as long as this
// thread does. The tracer is a thread too. It stops tracing when it ends, and it
// ends with the goroutine, which stays locked to it.
func traceProcess(pid int, seized chan<- error, release <-chan struct{}) error {
	runtime.LockOSThread()
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, unix.PTRACE_O_TRACEEXIT, 0, 0)
	if errno != 0 {
		seized <- fmt.Errorf("trace it: %w", errno)
		return nil
	}
	close(seized)
	for {
		var s unix.WaitStatus
		_, err := unix.Wait4(pid, &s, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("wait for it: %w", err)
		case !s.Stopped():
			return nil
		case s.TrapCause() == unix.PTRACE_EVENT_EXIT:
			<-release
			return nil
		}
		if err := unix.PtraceCont(pid, int(s.StopSignal())); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("let it go on: %w", err)
		}
	}
}
