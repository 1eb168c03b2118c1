package tracer

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/confine"
	"rdma_events/tests/prerequisite"
)

// byLandlock has the attempts that Landlock refuses, and byAll the attempts that the rest of the confinement refuses.
var (
	byLandlock = []string{"read a file", "list the root", "read another's status"}
	byAll      = []string{
		"have a capability", "gain privileges", "leave a core",
		"execute a program", "execute itself", "execute by a descriptor",
		"trace a process", "read another's memory", "write another's memory", "take a descriptor",
		"mount", "unmount", "change the root", "clone a mount", "move a mount", "change a mount",
		"open a file system", "pick a file system", "mount a file system",
		"watch by perf", "load a module", "load a module's file", "load a kernel", "leave its namespaces", "enter a namespace",
		"make a TCP socket", "make a UDP socket", "make a packet socket", "ask for routes", "ask for RDMA devices", "hear uevents",
		"load eBPF", "attach eBPF", "load types", "open another's map", "make a map", "write into a map",
	}
)

// expectedRefusals returns the attempts that must be refused, with their errors.
func expectedRefusals() map[string]string {
	all := map[string]string{"clone3": "ENOSYS"}
	for _, name := range byAll {
		all[name] = "EPERM"
	}
	if confine.Landlock() > 0 {
		for _, name := range byLandlock {
			all[name] = "EACCES"
		}
	}
	return all
}

// startTarget starts a process to attack, and returns the environment of the attempts and a function that returns their results.
func startTarget(t *testing.T) (env []string, results func() map[string]string) {
	t.Helper()
	victim := exec.Command("sleep", "1000")
	require.NoError(t, victim.Start())
	t.Cleanup(func() {
		require.NoError(t, victim.Process.Kill())
		require.Error(t, victim.Wait())
	})
	note := filepath.Join(t.TempDir(), "note")
	require.NoError(t, os.WriteFile(note, nil, 0o600))
	env = []string{targetKey + "=" + strconv.Itoa(victim.Process.Pid), noteKey + "=" + note}
	return env, func() (found map[string]string) {
		text, err := os.ReadFile(note)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &found))
		return found
	}
}

// threadStatuses returns the lines of proc_pid_status(5) of all threads.
func threadStatuses(t *testing.T, pid int) (all []string) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	require.NoError(t, err)
	for _, path := range tasks {
		text, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // this thread has ended
		}
		require.NoError(t, err)
		all = append(all, string(text))
	}
	require.Greater(t, len(all), 1)
	return all
}

func requireCapabilities(t *testing.T, threads []string, set uint64) {
	t.Helper()
	for _, text := range threads {
		for _, line := range []string{
			fmt.Sprintf("CapPrm:\t%016x\n", set), fmt.Sprintf("CapEff:\t%016x\n", set), "NoNewPrivs:\t1\n", "Seccomp:\t2\n",
		} {
			require.Contains(t, text, line)
		}
	}
}

func TestTheTracerHasNothing(t *testing.T) {
	env, results := startTarget(t)
	c := Config{Settings: Settings{Hooks: HooksKprobe}, Env: env}
	var threads []string
	r := superviseUntil(t, "attempts", "attached", c, func(r *reports) { threads = threadStatuses(t, r.running.PID) })
	require.Equal(t, []string{"status starting", "attached by test, running", "ended ok", "status stopped"}, r.calls)
	requireCapabilities(t, threads, 0)
	want := expectedRefusals()
	if os.Geteuid() != 0 {
		for _, name := range []string{"read a map", "delete in a map", "read a map at once"} {
			want[name] = "EBADF" // there is none
		}
		want["describe a map"] = "EBADFD"
	}
	require.Equal(t, want, results())
}

// On a kernel that allows map lookups without CAP_BPF, CAP_BPF gives a tracer no additional rights.
func TestATracerThatKeepsCAP_BPFHasNothingElse(t *testing.T) {
	prerequisite.RequireRoot(t, "not root: there is no capability to keep")
	env, results := startTarget(t)
	c := Config{Settings: Settings{Hooks: HooksKprobe}, Env: env}
	var threads []string
	superviseUntil(t, "attempts with CAP_BPF", "attached", c, func(r *reports) { threads = threadStatuses(t, r.running.PID) })
	requireCapabilities(t, threads, 1<<unix.CAP_BPF)
	want := expectedRefusals()
	delete(want, "have a capability")
	require.Equal(t, want, results())
}

// Without the confinement, none of the attempts above is refused.
func TestWithoutConfinementATracerCouldDoAllOfThat(t *testing.T) {
	prerequisite.RequireRoot(t, "not root: only root may do everything that is to be refused")
	env, results := startTarget(t)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), append(env, modeKey+"=attempts without confinement")...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Empty(t, results())
	for name := range maps.Keys(expectedRefusals()) {
		require.Contains(t, allAttempts(), name)
	}
}
