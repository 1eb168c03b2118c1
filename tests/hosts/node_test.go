package hosts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/tests/prerequisite"
)

func TestForbiddenFileIsRefusedToRoot(t *testing.T) {
	prerequisite.RequireRoot(t, "only root may decide who opens a file (fanotify)")
	forbidden, other := filepath.Join(t.TempDir(), "uverbs0"), filepath.Join(t.TempDir(), "uverbs1")
	for _, path := range []string{forbidden, other} {
		require.NoError(t, os.WriteFile(path, nil, 0o666))
	}
	allow, err := forbidOpening([]string{forbidden})
	require.NoError(t, err)
	for range 3 {
		_, err = os.OpenFile(forbidden, os.O_RDWR, 0)
		require.ErrorIs(t, err, unix.EPERM)
	}
	require.NoError(t, openFile(other))
	allow()
	require.NoError(t, openFile(forbidden))
}

func openFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}
