package lab

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// What can go wrong with a guest, as opposed to the program in it, whose failure is an exit status.
var (
	// ErrBoot says that the guest never came as far as starting the program.
	ErrBoot = errors.New("guest did not boot")
	// ErrPanic says that the guest's kernel panicked; an oops counts as one.
	ErrPanic = errors.New("guest kernel panicked")
	// ErrTimeout says that the guest was killed because Job.Timeout had passed.
	ErrTimeout = errors.New("guest timed out")
	// ErrLost says that the guest ended without leaving the program's exit status.
	ErrLost = errors.New("guest ended without an exit status")
)

// GuestError is a guest's failure with what its kernel said last. Err is one of the sentinels above, or
// the context's error.
type GuestError struct {
	Err error
	// Stage says how far the guest had come: "booting" or "running".
	Stage string
	// Log is the path of the kernel's log and Tail its last lines; Qemu is what qemu itself complained of.
	Log, Tail, Qemu string
}

func (e *GuestError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v while %s", e.Err, e.Stage)
	if e.Qemu != "" {
		fmt.Fprintf(&b, "\nqemu: %s", e.Qemu)
	}
	if e.Tail != "" {
		fmt.Fprintf(&b, "\nlast lines of %s:\n%s", e.Log, e.Tail)
	}
	return b.String()
}

func (e *GuestError) Unwrap() error { return e.Err }

func isPanic(line string) bool { return strings.Contains(line, "Kernel panic") }

// tail returns the last n lines of a kernel log, and from a panic on what led to it, because a call trace
// would else push that out. It returns nothing if there is no log: it decorates another error.
func tail(path string, n int) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	text := strings.TrimSpace(strings.ReplaceAll(string(b), "\r\n", "\n"))
	lines := strings.Split(text, "\n")
	end := len(lines)
	if i := slices.IndexFunc(lines, isPanic); i >= 0 {
		end = min(end, i+n/2)
	}
	return strings.Join(lines[max(0, end-n):end], "\n")
}
