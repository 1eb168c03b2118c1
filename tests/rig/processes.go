package rig

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Children returns the processes that pid has started and that still run.
func Children(t testing.TB, pid int) []int {
	t.Helper()
	running, _ := processFamily(t, pid)
	return running
}

// Zombies returns the processes that pid has started, that have ended and for
// which pid has not waited.
func Zombies(t testing.TB, pid int) []int {
	t.Helper()
	_, ended := processFamily(t, pid)
	return ended
}

func processFamily(t testing.TB, pid int) (running, ended []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // gone meanwhile
		}
		// The name in brackets may contain any character. The state and the parent follow the last bracket.
		rest := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if rest[1] != strconv.Itoa(pid) {
			continue
		}
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			t.Fatal(err)
		}
		if rest[0] == "Z" {
			ended = append(ended, child)
		} else {
			running = append(running, child)
		}
	}
	return running, ended
}

// Workers returns the worker processes of the plugin under Telegraf.
func (r *Telegraf) Workers() []int {
	r.t.Helper()
	var workers []int
	for _, plugin := range Children(r.t, r.PID()) {
		workers = append(workers, Children(r.t, plugin)...)
	}
	return workers
}

// Running reports whether a process exists and is not a zombie.
func Running(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	return !bytes.Contains(text[bytes.LastIndexByte(text, ')'):], []byte(") Z"))
}

// Memory returns a figure of a process's memory in bytes, by its name in
// proc_pid_status(5): VmRSS is all resident memory, VmHWM is the highest VmRSS so
// far, RssAnon is the resident memory that belongs to no file.
func Memory(t testing.TB, pid int, figure string) int64 {
	t.Helper()
	return statusNumber(t, pid, figure) << 10
}

// Threads returns how many threads a process has.
func Threads(t testing.TB, pid int) int64 {
	t.Helper()
	return statusNumber(t, pid, "Threads")
}

// statusNumber returns a number of proc_pid_status(5), without its unit.
func statusNumber(t testing.TB, pid int, figure string) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		if name != figure {
			continue
		}
		n, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	t.Fatalf("process %d has no %s", pid, figure)
	return 0
}

// Worker returns the worker process of a device, or 0 if there is none. The
// command line of a worker ends with the name of its device.
func (r *Telegraf) Worker(device string) int {
	r.t.Helper()
	for _, pid := range r.Workers() {
		args, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if err == nil && strings.HasSuffix(string(args), "\x00"+device+"\x00") {
			return pid
		}
	}
	return 0
}
