//go:build linux && cgo

package native

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"rdma_events/internal/device/nldev"
)

// The error is ErrNoProvider only if the library has providers for other devices.
func TestProviderIsLackingOnlyBesideOthers(t *testing.T) {
	for name, row := range map[string]struct {
		files []string
		want  bool
	}{
		"others alone":                     {[]string{"libmlx5-rdmav34.so", "librxe-rdmav34.so"}, true},
		"its own":                          {[]string{"libmlx5-rdmav34.so", "libirdma-rdmav34.so"}, false},
		"its own of another ABI":           {[]string{"libmlx5-rdmav59.so", "libirdma-rdmav34.so"}, false},
		"one whose name begins like it":    {[]string{"libirdma2-rdmav34.so"}, true},
		"none, the package is missing yet": {nil, false},
		"other files":                      {[]string{"libirdma.so.1", "README"}, false},
	} {
		dir := t.TempDir()
		for _, file := range row.files {
			require.NoError(t, os.WriteFile(filepath.Join(dir, file), nil, 0o644))
		}
		require.Equal(t, row.want, lacksProvider(dir, "irdma"), name)
	}
	require.False(t, lacksProvider(filepath.Join(t.TempDir(), "missing"), "irdma"))
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "libmlx5-rdmav34.so"), nil, 0o644))
	require.False(t, lacksProvider(dir, ""), "the driver is not known")
}

func TestDeviceIsUsedByProcessesAndKernelModules(t *testing.T) {
	used := func(owners ...nldev.Owner) bool { return isUsed(nldev.Use{Owners: owners}, nil) }
	core := nldev.Owner{Kernel: "ib_core", Domains: 1}
	require.False(t, used())
	require.False(t, used(core))
	require.True(t, used(core, nldev.Owner{PID: 7}))
	require.True(t, used(core, nldev.Owner{}), "a process of another PID namespace")
	require.True(t, used(nldev.Owner{Kernel: "rpcrdma"}))
	require.False(t, isUsed(nldev.Use{}, errors.New("RDMA netlink is forbidden")))
	require.True(t, isUsed(nldev.Use{}, unix.EMFILE), "nothing is known while descriptors are short")
}
