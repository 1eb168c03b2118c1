package agent

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/memory"
	"rdma_events/internal/device/verbs"
)

// systemd gives a service this directory, and the Kubernetes component "state" gives it to a pod.
func TestMemoryOutlivesThePluginInTheStateDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), stateDirName)
	require.NoError(t, os.Mkdir(dir, 0o700))
	t.Setenv("STATE_DIRECTORY", dir)
	c := Config{Backend: verbs.BackendVerbs}
	log := slog.New(slog.DiscardHandler)
	first := c.openMemory(log)
	require.True(t, first.IsPersistent())
	first.RememberDevice("mlx5_0", memory.Identity{PCI: "0000:3b:00.0"}, true)
	first.RememberPort("mlx5_0", 1, 400)
	_, err := first.Sync()
	require.NoError(t, err)

	rate, ok := c.openMemory(log).Port("mlx5_0", 1)
	require.True(t, ok)
	require.Equal(t, 400.0, rate)
	require.False(t, (&Config{Backend: verbs.BackendSim}).openMemory(log).IsPersistent())
}
