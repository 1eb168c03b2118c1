package inspect

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestProcessIsNamedByAnyThread(t *testing.T) {
	for _, number := range []int{os.Getpid(), unix.Gettid()} {
		name, process := FindProgram(number)
		require.Equal(t, filepath.Base(os.Args[0]), name)
		require.Equal(t, os.Getpid(), process)
	}
	name, _ := FindProgram(1 << 30)
	require.Empty(t, name)
}
