package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The things that the threads of an idle process wait for.
const (
	WaitsForEvent  = "an asynchronous event of the device, in C"
	WaitsForRound  = "the next round of a probe or its completion event, in C"
	WaitsForGo     = "Go's timers, messages and the doorbell (network poller and idle threads)"
	WaitsForTimer  = "Go's timers, too, and while Go code runs (sysmon)"
	WaitsOtherwise = "something else"
)

// ThreadWakeUps returns how often the threads of processes were woken so far, by what they wait for at the moment. Threads that have
// ended are not included.
func ThreadWakeUps(pids []int) (map[string]float64, error) {
	all := map[string]float64{}
	for _, pid := range pids {
		paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		if err != nil || paths == nil {
			return nil, fmt.Errorf("find threads of process %d: %w", pid, os.ErrNotExist)
		}
		for _, path := range paths {
			call, err := os.ReadFile(filepath.Join(path, "syscall"))
			if err != nil {
				return nil, fmt.Errorf("read what a thread waits for: %w", err)
			}
			text, err := os.ReadFile(filepath.Join(path, "status"))
			if err != nil {
				return nil, fmt.Errorf("read scheduler's counts: %w", err)
			}
			n, err := wakeUps(string(text))
			if err != nil {
				return nil, fmt.Errorf("parse %s: %w", path, err)
			}
			all[waitOf(string(call))] += n
		}
	}
	return all, nil
}

// waitOf returns what a thread waits for by its line of proc_pid_syscall(5).
func waitOf(line string) string {
	f := strings.Fields(line)
	if len(f) < 7 {
		return WaitsOtherwise // it runs
	}
	number, err := strconv.Atoi(f[0])
	if err != nil {
		return WaitsOtherwise
	}
	const none = "0x0"
	switch number {
	case unix.SYS_PPOLL:
		if f[3] == none {
			return WaitsForEvent
		}
		return WaitsForRound
	case unix.SYS_EPOLL_PWAIT:
		return WaitsForGo
	case unix.SYS_NANOSLEEP:
		return WaitsForTimer
	case unix.SYS_FUTEX:
		if f[4] == none {
			return WaitsForGo
		}
		return WaitsForTimer
	}
	return WaitsOtherwise
}
