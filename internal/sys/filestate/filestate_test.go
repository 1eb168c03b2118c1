package filestate

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

func stat(t *testing.T, path string) fs.FileInfo {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info
}

func TestSameSeesEachChangeOfAFile(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "file"), filepath.Join(dir, "other")
	for name, change := range map[string]func() error{
		"content of the same length": func() error { return os.WriteFile(path, []byte("two"), 0o600) },
		"a longer content":           func() error { return os.WriteFile(path, []byte("longer"), 0o600) },
		"mode":                       func() error { return os.Chmod(path, 0o640) },
		"modification time":          func() error { return os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)) },
		"another file by rename":     func() error { return os.Rename(other, path) },
		"content, with the modification time put back": func() error {
			was := stat(t, path).ModTime()
			if err := os.WriteFile(path, []byte("two"), 0o600); err != nil {
				return err
			}
			return os.Chtimes(path, was, was)
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(path, []byte("one"), 0o600))
			require.NoError(t, os.WriteFile(other, []byte("one"), 0o600))
			before := stat(t, path)
			require.True(t, Same(before, stat(t, path)))
			passTick(t, dir)
			require.NoError(t, change())
			require.False(t, Same(before, stat(t, path)))
		})
	}
}

// passTick waits until the kernel's clock for file times has advanced.
func passTick(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, "tick")
	stamped := func() time.Time {
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		return ChangeTime(stat(t, path))
	}
	first := stamped()
	require.Eventually(t, func() bool { return stamped().After(first) }, 10*time.Second, time.Millisecond)
}

func TestChangeTimeOfAFileWithoutOneIsItsModification(t *testing.T) {
	at := time.Unix(7, 0)
	info, err := fs.Stat(fstest.MapFS{"file": {ModTime: at}}, "file")
	require.NoError(t, err)
	require.Equal(t, at, ChangeTime(info))
}
