package build

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersionOfACheckoutIsDev(t *testing.T) {
	require.Equal(t, "dev", Version(""))
	require.Equal(t, "1.2.3", Version("1.2.3"))
}

func TestVersionOfAnInstalledModuleIsItsOwn(t *testing.T) {
	installed := &debug.BuildInfo{Main: debug.Module{Path: "example.com/rdma_events", Version: "v1.2.3", Sum: "h1:x"}}
	require.Equal(t, "v1.2.3", moduleVersion(installed))
	checkout := &debug.BuildInfo{Main: debug.Module{Path: "example.com/rdma_events", Version: "v1.2.4-0.20260102150405-4f0c9d8b7a6e+dirty"}}
	require.Empty(t, moduleVersion(checkout))
}
