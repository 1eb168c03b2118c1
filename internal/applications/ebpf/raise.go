package ebpf

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// raiseCapabilities makes all permitted capabilities of this thread effective. The kernel does not execute a file with effective
// capabilities (=ep) if the bounding set lacks one of them, as in some containers. It does execute a file with permitted capabilities (=p)
// there, with the remaining ones, and the program can then report which ones are missing.
func raiseCapabilities() error {
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

// makeProcReadable lets the process open its own files in /proc, where the loader looks for the kernel's version. Without this, the files
// of a program whose file has capabilities belong to root. The returned function restores the previous state. Other processes of the user
// gain no access, because they lack the capabilities of this process (ptrace(2), access mode checking).
func makeProcReadable() (restore func()) {
	was, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil || was == 1 || unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) != nil {
		return func() {} // the loader reports what it lacks
	}
	return func() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
}
