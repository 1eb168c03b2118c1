package release

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hostWith returns a root directory with a /proc in which the processes have the given nodes open.
func hostWith(t *testing.T, processes map[string][2]string) (root string) {
	t.Helper()
	root = t.TempDir()
	put := func(text string, path ...string) {
		file := filepath.Join(append([]string{root}, path...)...)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	put("mlx5_0\n", "sys/class/infiniband_verbs/uverbs0/ibdev")
	put("mlx5_1\n", "sys/class/infiniband_verbs/uverbs1/ibdev")
	put("", "proc/self")
	for pid, p := range processes {
		put(p[0]+"\x00", "proc", pid, "cmdline")
		require.NoError(t, os.Mkdir(filepath.Join(root, "proc", pid, "fd"), 0o755))
		require.NoError(t, os.Symlink("anon_inode:[infinibandevent]", filepath.Join(root, "proc", pid, "fd", "3")))
		require.NoError(t, os.Symlink(p[1], filepath.Join(root, "proc", pid, "fd", "4")))
	}
	return root
}

// AskPlugins reaches neither a plugin without a directory nor `rdma-events watch`.
func TestWorkersThatNobodyAsksAreAwaited(t *testing.T) {
	root := hostWith(t, map[string][2]string{
		"10": {"worker", "/dev/infiniband/uverbs0"}, "11": {"worker", "/dev/infiniband/uverbs1"},
		"12": {"an application", "/dev/infiniband/uverbs0"}, "13": {"worker", "/dev/infiniband/uverbs0 (deleted)"},
	})
	isReleased := func(device string) bool { return device == "mlx5_0" }
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.Equal(t, []Holder{{10, "mlx5_0"}}, AwaitHolders(ctx, root, "worker", isReleased))

	done := make(chan []Holder)
	go func() { done <- AwaitHolders(t.Context(), root, "worker", isReleased) }()
	require.NoError(t, os.RemoveAll(filepath.Join(root, "proc/10")))
	require.Empty(t, <-done)
}
