package statusfile

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/agent/health"
)

// report is the content of a file.
type report struct {
	health.Status
	Process writer `json:"process"`
}

// writer is the process that wrote a file.
type writer struct {
	PID int `json:"pid"`
	// Namespace is the inode of its PID namespace: in another one the PID says nothing.
	Namespace uint64 `json:"pid_namespace"`
	// Started is when it started, in clock ticks after the boot (field 22 of /proc/PID/stat, proc(5)); a later process
	// of the same PID has another one.
	Started uint64 `json:"started_ticks"`
	// Written is when it wrote the file, in ns of CLOCK_BOOTTIME.
	Written int64 `json:"written_ns"`
	// Slept is how long the host had been suspended by then, since its boot, in ns; nil: not known.
	Slept *int64 `json:"slept_ns,omitempty"`
	// Interval is how long before that it wrote the file last, in ns; 0: never.
	Interval int64 `json:"interval_ns"`
}

// identify returns the writer that a process of this host is, as /proc has it.
func identify(pid int) (writer, error) {
	w := writer{PID: pid}
	var err error
	if w.Namespace, err = namespace(); err != nil {
		return w, err
	}
	w.Started, err = started(pid)
	return w, err
}

// namespace returns the inode of this process' PID namespace.
func namespace() (uint64, error) {
	const path = "/proc/self/ns/pid"
	name, err := os.Readlink(path) // "pid:[4026531836]", namespaces(7)
	if err != nil {
		return 0, fmt.Errorf("read PID namespace: %w", err)
	}
	inode, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(name, "pid:["), "]"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read PID namespace: %s is %q", path, name)
	}
	return inode, nil
}

// started returns when a process started, in clock ticks after the boot. The error is os.ErrNotExist if there is none.
func started(pid int) (uint64, error) {
	path := fmt.Sprintf("/proc/%d/stat", pid)
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read start of process: %w", err)
	}
	// The second field is the name in parentheses, and may contain any of them.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const index = 22 - 3 // the third field is the first one after the name
	if len(fields) <= index {
		return 0, fmt.Errorf("read start of process: %s has %d fields after the name", path, len(fields))
	}
	ticks, err := strconv.ParseUint(fields[index], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read start of process: %s: field 22: %w", path, err)
	}
	return ticks, nil
}

const (
	// firstLimit is how old the first report of a plugin may be, which does not know the interval of its agent yet.
	firstLimit = 10 * time.Minute
	// leastLimit is the least age that makes a report stale.
	leastLimit = time.Minute
)

// limit returns how old the report may be: three intervals, as the alert rules allow.
func (w *writer) limit() time.Duration {
	if w.Interval <= 0 {
		return firstLimit
	}
	return max(leastLimit, 3*time.Duration(w.Interval))
}

// gone reports whether the process is known to have ended. From another PID namespace it is not known. Where /proc hides
// other users' processes (hidepid, proc(5)) a process of the same PID counts as the one that wrote.
func (w *writer) gone(here uint64) bool {
	if w.Namespace != here {
		return false
	}
	if errors.Is(unix.Kill(w.PID, 0), unix.ESRCH) {
		return true
	}
	since, err := started(w.PID)
	return err == nil && since != w.Started
}
