package hosts

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/memory"
	"rdma_events/tests/prerequisite"
)

// memoryLimit is how long what takes a minute may take on a busy machine: to remember a port, and to hold an alert.
const memoryLimit = 3 * time.Minute

// ask runs a command of the program on the host, and returns its exit status and output.
func (w *world) ask(args ...string) (int, string) {
	w.t.Helper()
	cmd := w.command(args...)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		w.t.Fatalf("run %v: %v", args, err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// awaitHealth waits until health ends with a status.
func (w *world) awaitHealth(want int) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		code, _ := w.ask("health")
		return code == want
	}, memoryLimit, time.Second, "health does not end with %d; log:\n%s", want, deferred(w.logged))
}

// A port that was active before a restart and is down since is a problem, until it is forgotten.
func TestPortDownSinceTheRestartIsCriticalUntilForgotten(t *testing.T) {
	prerequisite.RequireRoot(t, "only root may put other trees in place of /sys and /dev/infiniband")
	if out, err := exec.Command("unshare", "--mount", "--net", "true").CombinedOutput(); err != nil {
		prerequisite.Missing(t, prerequisite.Root, "a host needs mount and network namespaces of its own: "+string(out))
	}
	t.Parallel()
	libraries, err := library()
	require.NoError(t, err)
	h := &host{Devices: []device{{Name: "mlx5_0", PCI: "0000:19:00.0", Driver: "mlx5_core", Link: "infiniband"}}}
	w := &world{t: t, dir: t.TempDir(), libraries: filepath.Join(libraries, "with")}
	require.NoError(t, h.build(w.dir))
	state := filepath.Join(w.dir, stateDir)
	require.NoError(t, os.MkdirAll(state, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "run/rdma_events.conf"), []byte("[[inputs.rdma_events]]\n  state_interval = \"1s\"\n"), 0o644))
	start := func() (stop func()) { return w.start("-config", "/run/rdma_events.conf", "-poll_interval", "1s") }

	stop := start()
	require.Eventually(t, func() bool {
		m, err := memory.Open(state, memory.Machine(), time.Now)
		if err != nil {
			return false
		}
		_, ok := m.Port("mlx5_0", 1)
		return ok
	}, memoryLimit, time.Second, "the port is not remembered")
	w.awaitHealth(0)
	stop()

	h.Devices[0].State, h.Devices[0].Phys = "down", 2
	require.NoError(t, h.Devices[0].build(w.dir, 0))
	stop = start()
	defer func() { stop() }()
	w.awaitHealth(70)
	w.awaitHealth(2)
	_, line := w.ask("health")
	require.Contains(t, line, "mlx5_0:1 port-down")
	_, text := w.ask("status")
	require.NotContains(t, text, "is not remembered")
	code, text := w.ask("forget", "-directory", "/"+stateDir, "mlx5_0:1")
	require.Zero(t, code, text)
	w.awaitHealth(0)
}
