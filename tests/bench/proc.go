package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// CPUTime returns how long the threads of processes have run, by the scheduler's
// count in ns (sched-stats in the kernel's documentation). The clock ticks of stat
// are too coarse. Threads that have ended are not included.
func CPUTime(pids []int) (time.Duration, error) {
	var sum time.Duration
	for _, pid := range pids {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		if err != nil || threads == nil {
			return 0, fmt.Errorf("find threads of process %d: %w", pid, os.ErrNotExist)
		}
		for _, thread := range threads {
			ran, err := readRan(thread)
			if err != nil {
				return 0, err
			}
			sum += ran
		}
	}
	return sum, nil
}

func readRan(path string) (ran time.Duration, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("read run time: %w", err)
	}
	if _, err := fmt.Sscan(string(text), &ran); err != nil {
		return 0, fmt.Errorf("parse %s: %w", path, err)
	}
	return ran, nil
}

// Memory returns the memory of a process in MiB: rss is all resident memory, and
// pss divides shared pages among the processes that use them
// (proc_pid_smaps(5)).
func Memory(pid int) (rss, pss float64, err error) {
	path := fmt.Sprintf("/proc/%d/smaps_rollup", pid)
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, fmt.Errorf("read memory: %w", err)
	}
	for field, to := range map[string]*float64{"\nRss:": &rss, "\nPss:": &pss} {
		_, rest, found := strings.Cut(string(text), field)
		if !found {
			return 0, 0, fmt.Errorf("parse %s: no %q", path, field)
		}
		kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
		if err != nil {
			return 0, 0, fmt.Errorf("parse %s: %w", path, err)
		}
		*to = kb / 1024
	}
	return rss, pss, nil
}
