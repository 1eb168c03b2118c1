package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFileIsSeenToChangeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ld.so.cache")
	write := func(text string) { // as ldconfig(8) does
		require.NoError(t, os.WriteFile(path+"~", []byte(text), 0o644))
		require.NoError(t, os.Rename(path+"~", path))
	}
	changed := newFileChangeDetector(path)
	require.False(t, changed(), "it is missing")
	for _, text := range []string{"mlx5", "mlx5 irdma", "mlx5 irdma"} {
		write(text)
		require.True(t, changed())
		require.False(t, changed())
	}
	require.NoError(t, os.Remove(path))
	require.False(t, changed())
	write("")
	require.True(t, changed())
}
