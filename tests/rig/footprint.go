package rig

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Footprint counts what a process holds: its open descriptors by kind ("socket:", "memfd:",
// "anon_inode:[eventpoll]", a path), its children and its mapped memfds.
type Footprint map[string]int

var number = regexp.MustCompile(`\d+`)

// FootprintOf returns what a process holds now. All counts are 0 if it has ended.
func FootprintOf(t testing.TB, pid int) Footprint {
	t.Helper()
	f := Footprint{"children": len(Children(t, pid))}
	for _, target := range openFiles(t, pid) {
		f[kindOf(target)]++
	}
	mapped, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "maps"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	f["mapped memfds"] = strings.Count(string(mapped), "/memfd:")
	return f
}

// HasOpen reports whether a process has a file open.
func HasOpen(t testing.TB, pid int, path string) bool {
	t.Helper()
	return slices.Contains(openFiles(t, pid), path)
}

// openFiles returns the targets of the descriptors of a process.
func openFiles(t testing.TB, pid int) []string {
	t.Helper()
	fds, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "fd/*"))
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, fd := range fds {
		target, err := os.Readlink(fd)
		if errors.Is(err, fs.ErrNotExist) {
			continue // closed meanwhile
		}
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, target)
	}
	return targets
}

// kindOf returns the target of a descriptor without the name of a memfd and with N in place of each number, so
// that all descriptors of a kind have the same result.
func kindOf(target string) string {
	if strings.HasPrefix(target, "/memfd:") {
		return "memfd:"
	}
	return number.ReplaceAllString(target, "N")
}

// MoreThan lists the kinds of which f has more than before. It returns "" if there are none.
func (f Footprint) MoreThan(before Footprint) string {
	var more []string
	for _, kind := range slices.Sorted(maps.Keys(f)) {
		if f[kind] > before[kind] {
			more = append(more, fmt.Sprintf("%s: %d, before %d", kind, f[kind], before[kind]))
		}
	}
	return strings.Join(more, "; ")
}

// goroutine matches the first line of a goroutine's stack. It does not match the goroutines of the garbage
// collector, which starts them as it needs them.
var goroutine = regexp.MustCompile(`(?m)^goroutine \d+ .*\[([^G]|G[^C])`)

// CountGoroutines ends the plugin with SIGQUIT and returns how many goroutines it had, counted in the stacks that
// the Go runtime prints. Config.KeepStderr must be set. Telegraf starts the plugin again after its restart delay.
func (r *Telegraf) CountGoroutines() int {
	r.t.Helper()
	plugins := Children(r.t, r.PID())
	if len(plugins) != 1 {
		r.t.Fatalf("want one plugin, got processes %v", plugins)
	}
	if err := syscall.Kill(plugins[0], syscall.SIGQUIT); err != nil {
		r.t.Fatalf("ask for stacks: %v", err)
	}
	r.Await("the end of the plugin", 20*time.Second, func([]Point) bool { return !Running(plugins[0]) })
	return len(goroutine.FindAllString(r.Stderr(), -1))
}
