//go:build linux && cgo

package native_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/conformance/standin"
	"rdma_events/internal/conformance/verbstest"
	"rdma_events/internal/device/native"
	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
)

// standinSuite is set in the process of this program that loads the stand-in and runs the contract suite.
const standinSuite = "STANDIN_SUITE"

// Two ports of the stand-in's device probe each other.
func TestTheFabricKeepsItsContractOnTheStandIn(t *testing.T) {
	for _, link := range []verbs.LinkLayer{verbs.LinkEthernet, verbs.LinkInfiniBand} {
		t.Run(link.String(), func(t *testing.T) {
			if os.Getenv(standinSuite) == "" {
				t.Parallel()
				runWithStandIn(t)
				return
			}
			runSuite(t, link)
		})
	}
}

func runSuite(t *testing.T, link verbs.LinkLayer) {
	t.Helper()
	c, err := standin.Map(os.Getenv("STANDIN_CONTROL"))
	require.NoError(t, err)
	c.RetryUS, c.LinkLayer = int32((300 * time.Millisecond).Microseconds()), int32(link)
	root := os.Getenv("STANDIN_ROOT")
	require.NoError(t, standin.WritePort(filepath.Join(root, "sys"), "standin0", 2))
	verbstest.RunFabrics(t, verbstest.Fixture{
		Backend: native.NewAt(sysfs.New(filepath.Join(root, "sys")), filepath.Join(root, "dev")),
		Device:  "standin0", Port: 1,
		Peer: &verbstest.Peer{Device: "standin0", Port: 2},
	})
	require.Empty(t, c.BrokenRule())
}

// runWithStandIn runs the test again in a process that uses the stand-in as its library.
func runWithStandIn(t *testing.T) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	pattern := "^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$"
	cmd := exec.CommandContext(t.Context(), exe, "-test.run="+pattern, "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", standinSuite+"=1", "LD_LIBRARY_PATH="+filepath.Dir(standInLibrary(t)),
		"STANDIN_ROOT="+standinRoot(t), "STANDIN_CONTROL="+filepath.Join(t.TempDir(), "control"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name()+"/")
	require.NotContains(t, string(out), "--- SKIP")
}
