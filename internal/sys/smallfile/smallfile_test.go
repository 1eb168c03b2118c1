package smallfile

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadTakesRegularFilesAlone(t *testing.T) {
	dir := t.TempDir()
	file, fifo, link := filepath.Join(dir, "file"), filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(file, []byte("12345"), 0o600))
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	require.NoError(t, os.Symlink(file, link))

	text, err := Read(file, 3)
	require.NoError(t, err)
	require.Equal(t, "123", string(text))
	for _, path := range []string{dir, fifo} {
		_, err := Read(path, 3)
		require.ErrorIs(t, err, ErrNotRegular)
		require.EqualError(t, err, path+" is no regular file")
	}
	_, err = Read(link, 3)
	require.ErrorIs(t, err, syscall.ELOOP)
	_, err = Read(filepath.Join(dir, "none"), 3)
	require.ErrorIs(t, err, os.ErrNotExist)
}
