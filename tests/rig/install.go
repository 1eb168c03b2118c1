package rig

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Installed are copies of the programs in a directory of their own. What runs
// them is the test's, also when whoever started it is gone.
type Installed struct {
	t testing.TB
	// Plugin and Worker are the paths of the programs. The plugin looks for the
	// worker beside itself.
	Plugin, Worker string
}

// Install copies the programs to where any user may execute them, until the
// test's end.
func Install(t testing.TB) *Installed {
	t.Helper()
	dir := sharedDir(t)
	in := &Installed{t: t, Plugin: filepath.Join(dir, "rdma-events"), Worker: filepath.Join(dir, "rdma-events-worker")}
	in.copy(Program(t, "RDMA_EVENTS_BIN", "rdma-events"), in.Plugin)
	in.copy(Program(t, "RDMA_EVENTS_WORKER", "rdma-events-worker"), in.Worker)
	return in
}

// telegraf is a copy of Telegraf beside them, for a user who may not enter the checkout.
func (in *Installed) telegraf() string {
	in.t.Helper()
	path := filepath.Join(filepath.Dir(in.Plugin), "telegraf")
	if _, err := os.Stat(path); err != nil {
		in.copy(Program(in.t, "TELEGRAF_BIN", "tools/telegraf"), path)
	}
	return path
}

// Upgrade renames other files over both programs, as package managers do. They
// do the same: what follows the end of an ELF file has no meaning.
func (in *Installed) Upgrade() {
	in.t.Helper()
	for _, path := range []string{in.Plugin, in.Worker} {
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

// Processes returns those that run either program, whoever their parent is.
// Zombies are not among them.
func (in *Installed) Processes() []int {
	in.t.Helper()
	return append(Executing(in.t, in.Plugin), Executing(in.t, in.Worker)...)
}

// Executing returns the processes that execute the file of that path, or the one
// that had it before another was renamed over it.
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
