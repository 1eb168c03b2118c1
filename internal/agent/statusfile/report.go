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
	"rdma_events/internal/sys/clock"
)

// fileContent is the JSON content of a status file.
type fileContent struct {
	health.Status
	History []health.AlertHistory `json:"history,omitempty"`
	Process writingProcess        `json:"process"`
}

// writingProcess identifies the process that wrote a file, and tells when it did.
type writingProcess struct {
	PID int `json:"pid"`
	// Namespace is the inode of the PID namespace. The PID is meaningless in another namespace.
	Namespace uint64 `json:"pid_namespace"`
	// StartTicks is the start time of the process, in clock ticks since the boot (field 22 of /proc/PID/stat, proc(5)). A
	// later process with the same PID has another value.
	StartTicks uint64 `json:"started_ticks"`
	// BootID is the result of clock.BootID. It is "" if an older version wrote the file.
	BootID string `json:"boot_id"`
	// Ended is set in the last status that the process wrote before it ended.
	Ended bool `json:"ended,omitempty"`
	// WrittenNS is the time of writing, in ns of CLOCK_BOOTTIME.
	WrittenNS int64 `json:"written_ns"`
	// SuspendedNS is the time that the host had spent suspended since its boot, in ns, when the file was written. It is nil if
	// unknown.
	SuspendedNS *int64 `json:"slept_ns,omitempty"`
	// IntervalNS is the time since the previous write, in ns, or 0 for the first write.
	IntervalNS int64 `json:"interval_ns"`
}

// identifyProcess returns the identity of a running process from /proc.
func identifyProcess(pid int) (writingProcess, error) {
	w := writingProcess{PID: pid}
	var err error
	if w.Namespace, err = pidNamespace(); err != nil {
		return w, err
	}
	if w.BootID, err = clock.BootID(); err != nil {
		return w, err
	}
	w.StartTicks, err = readStartTicks(pid)
	return w, err
}

// pidNamespace returns the inode of this process's PID namespace.
func pidNamespace() (uint64, error) {
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

// readStartTicks returns when a process started, in clock ticks since the boot. The error wraps os.ErrNotExist if there
// is no such process.
func readStartTicks(pid int) (uint64, error) {
	path := fmt.Sprintf("/proc/%d/stat", pid)
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read start of process: %w", err)
	}
	// The second field is the name in parentheses. The name itself may contain blanks and parentheses.
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
	// firstMaxAge is the maximum age of the first status of a plugin, which does not know Telegraf's interval yet.
	firstMaxAge = 10 * time.Minute
	// minMaxAge is the lower bound of the maximum age.
	minMaxAge = time.Minute
)

// maxAge returns the age above which the status is stale: three intervals, as the alert rules allow.
func (w *writingProcess) maxAge() time.Duration {
	if w.IntervalNS <= 0 {
		return firstMaxAge
	}
	return max(minMaxAge, 3*time.Duration(w.IntervalNS))
}

// hasEnded reports whether the process has certainly ended. It returns false if the process is in another PID namespace
// than here, unless it wrote that it has ended, because nothing else is known about it. If /proc hides the processes of
// other users (hidepid, proc(5)), any process with the same PID counts as the writer.
func (w *writingProcess) hasEnded(here uint64) bool {
	if w.Ended || w.Namespace != here {
		return w.Ended
	}
	if errors.Is(unix.Kill(w.PID, 0), unix.ESRCH) {
		return true
	}
	since, err := readStartTicks(w.PID)
	return err == nil && since != w.StartTicks
}
