package lab

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Failures of a guest. A failure of the program in it is an exit status instead.
var (
	// ErrBoot means that the guest failed before it could start the program.
	ErrBoot = errors.New("guest did not boot")
	// ErrPanic means that the guest's kernel panicked; an oops counts as one.
	ErrPanic = errors.New("guest kernel panicked")
	// ErrTimeout means that the guest was killed because Job.Timeout had passed.
	ErrTimeout = errors.New("guest timed out")
	// ErrLost means that the guest ended without leaving the program's exit status.
	ErrLost = errors.New("guest ended without an exit status")
)

// GuestError is a guest's failure with the last lines of its kernel's log. Err is one of the sentinels above,
// or the context's error.
type GuestError struct {
	Err error
	// Stage is the state of the guest when it failed: "booting" or "running".
	Stage string
	// Log is the path of the kernel's log and Tail its last lines. Qemu is the standard error of qemu.
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

// logTail returns the last n lines of a kernel log. If the kernel panicked, it returns n lines around the panic
// instead: the call trace after a panic may be longer than n lines, and the lines before it show the cause. It
// returns "" if there is no log, because its result is a detail of another error.
func logTail(path string, n int) string {
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
