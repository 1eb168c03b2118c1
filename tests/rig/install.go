package rig

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Installed is a copy of the programs in a separate directory. Every process that
// runs one of the copies belongs to the test, also when its parent is gone.
type Installed struct {
	t testing.TB
	// Plugin, Worker and Tracer are the paths of the programs. The plugin expects the
	// others in its own directory.
	Plugin, Worker, Tracer string
}

// Install copies the programs to a directory where any user may execute them. The
// copies are removed at the end of the test.
func Install(t testing.TB) *Installed {
	t.Helper()
	dir := sharedDir(t)
	in := &Installed{
		t: t, Plugin: filepath.Join(dir, "rdma-events"), Worker: filepath.Join(dir, "rdma-events-worker"),
		Tracer: filepath.Join(dir, "rdma-events-tracer"),
	}
	in.copy(Program(t, "RDMA_EVENTS_BIN", "rdma-events"), in.Plugin)
	in.copy(Program(t, "RDMA_EVENTS_WORKER", "rdma-events-worker"), in.Worker)
	in.copy(Program(t, "RDMA_EVENTS_TRACER", "rdma-events-tracer"), in.Tracer)
	return in
}

// telegraf returns the path of a copy of Telegraf in the same directory, for a user who may not enter the checkout.
func (in *Installed) telegraf() string {
	in.t.Helper()
	path := filepath.Join(filepath.Dir(in.Plugin), "telegraf")
	if _, err := os.Stat(path); err != nil {
		in.copy(Program(in.t, "TELEGRAF_BIN", "tools/telegraf"), path)
	}
	return path
}

// Upgrade renames other files over all programs, as package managers do. The new
// programs behave the same: bytes after the end of an ELF file have no meaning.
func (in *Installed) Upgrade() {
	in.t.Helper()
	for _, path := range in.all() {
		in.copy(path, path+".new", []byte("of another version")...)
		if err := os.Rename(path+".new", path); err != nil {
			in.t.Fatal(err)
		}
	}
}

func (in *Installed) copy(from, to string, more ...byte) {
	in.t.Helper()
	program, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, append(program, more...), 0o755)
	}
	if err != nil {
		in.t.Fatal(err)
	}
}

func (in *Installed) all() []string { return []string{in.Plugin, in.Worker, in.Tracer} }

// Processes returns the processes that run any of the programs, with any parent.
// Zombies are not included.
func (in *Installed) Processes() []int {
	in.t.Helper()
	var pids []int
	for _, path := range in.all() {
		pids = append(pids, Executing(in.t, path)...)
	}
	return pids
}

// Executing returns the processes that execute the file at path, or a file that
// was at path before another file was renamed over it.
func Executing(t testing.TB, path string) []int {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || strings.TrimSuffix(target, " (deleted)") != path {
			continue // gone meanwhile, or a zombie, or another program
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}
