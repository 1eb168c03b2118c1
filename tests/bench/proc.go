package bench

import (
	"errors"
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
	err := eachThread(pids, "schedstat", func(text string) error {
		var ran time.Duration
		_, err := fmt.Sscan(text, &ran)
		sum += ran
		return err
	})
	return sum, err
}

// Switches is how often the threads of processes got a processor and gave it up.
type Switches struct {
	Slices  float64 // time slices, the scheduler's count (sched-stats in the kernel's documentation)
	WakeUps float64 // times that a thread had waited for something, voluntary_ctxt_switches (proc_pid_status(5))
}

// CountSwitches returns the switches of the processes' threads so far. Threads that
// have ended are not included.
func CountSwitches(pids []int) (s Switches, err error) {
	err = eachThread(pids, "schedstat", func(text string) error {
		var ran, waited, slices float64
		_, err := fmt.Sscan(text, &ran, &waited, &slices)
		s.Slices += slices
		return err
	})
	if err != nil {
		return Switches{}, err
	}
	err = eachThread(pids, "status", func(text string) error {
		n, err := wakeUps(text)
		s.WakeUps += n
		return err
	})
	return s, err
}

// wakeUps returns voluntary_ctxt_switches of a thread's status.
func wakeUps(status string) (n float64, err error) {
	_, rest, found := strings.Cut(status, "\nvoluntary_ctxt_switches:")
	if !found {
		return 0, errors.New("no voluntary_ctxt_switches")
	}
	_, err = fmt.Sscan(rest, &n)
	return n, err
}

// eachThread calls parse with a file of /proc of each thread of processes.
func eachThread(pids []int, file string, parse func(text string) error) error {
	for _, pid := range pids {
		paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/%s", pid, file))
		if err != nil || paths == nil {
			return fmt.Errorf("find threads of process %d: %w", pid, os.ErrNotExist)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				return fmt.Errorf("read scheduler's counts: %w", err)
			}
			if err := parse(string(text)); err != nil {
				return fmt.Errorf("parse %s: %w", path, err)
			}
		}
	}
	return nil
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
