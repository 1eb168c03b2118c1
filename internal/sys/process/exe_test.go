package process

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/sys/status"
)

func TestAProgramThatOthersCouldChangeIsRefused(t *testing.T) {
	for name, row := range map[string]struct {
		mode os.FileMode
		uid  int
		want string
	}{
		"writable by its group":   {0o775, 0, "not to be trusted: its group or others may write to it (mode 0775)"},
		"writable by all":         {0o757, 0, "not to be trusted: its group or others may write to it (mode 0757)"},
		"of an unprivileged user": {0o755, 12345, "not to be trusted: it belongs to user 12345"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "child")
			require.NoError(t, os.WriteFile(path, nil, 0o755))
			require.NoError(t, os.Chmod(path, row.mode))
			require.NoError(t, os.Chown(path, row.uid, 0))
			_, err := OpenExe(path)
			require.ErrorIs(t, err, status.ErrUntrusted)
			require.EqualError(t, err, "open program "+path+": "+row.want)
		})
	}
}

func TestFileThatIsNoProgramIsRefused(t *testing.T) {
	dir := t.TempDir()
	_, err := OpenExe(dir)
	require.ErrorContains(t, err, "not a file")
	_, err = OpenExe(dir + "/missing")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(dir+"/text", nil, 0o644))
	_, err = OpenExe(dir + "/text")
	require.ErrorContains(t, err, "not executable")
}

func TestAProgramThatMayOnlyBeExecutedIsAccepted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "child")
	require.NoError(t, os.WriteFile(path, nil, 0o111))
	f, err := OpenExe(path)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}
