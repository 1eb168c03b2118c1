package ebpf

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// raise makes the capabilities effective that this thread is permitted. The kernel executes no file whose capabilities are to
// be effective at once where the bounding set lacks one of them, as that of a container may. A file whose capabilities are
// only permitted (=p) is executed there too, with those that are left, and says itself what it lacks.
func raise() error {
	self := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&self, &sets[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	for i := range sets {
		sets[i].Effective = sets[i].Permitted
	}
	if err := unix.Capset(&self, &sets[0]); err != nil {
		return fmt.Errorf("raise capabilities: %w", err)
	}
	return nil
}

// openToItself lets the process open its own files in /proc, in which the loader looks for the kernel's version: those of a
// program whose file has capabilities are root's. It returns what takes that back. Another process of the user gains
// nothing, since it lacks the capabilities that this one has (ptrace(2), access mode checking).
func openToItself() (restore func()) {
	was, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil || was == 1 || unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) != nil {
		return func() {} // the loader says what it misses
	}
	return func() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
}
