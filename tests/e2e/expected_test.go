package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/tests/rig"
)

// simulatedHost returns a configuration for a host with so many devices, of which sim3 has no link, and options of the plugin.
func simulatedHost(t *testing.T, devices int, options string) string {
	t.Helper()
	down := writeScenario(t, "[[link]]\nat = \"0s\"\ndevice = \"sim3\"\ndown_for = \"1h\"\n")
	return writeFile(t, "rdma_events.conf", "[[inputs.rdma_events]]\n  backend = \"sim\"\n"+options+
		fmt.Sprintf("  [inputs.rdma_events.sim]\n    profile = \"fleet%d\"\n    scenario = %q\n", devices, down), 0o644)
}

// What check -learn prints is a configuration with which the host is well, and a host with a device less is not.
func TestLearnedSectionsFitTheHostAndNoLesserOne(t *testing.T) {
	t.Parallel()
	none := statusDir(t) // no plugin runs
	learn := exec.CommandContext(t.Context(), rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), "check", "-learn", "-config", simulatedHost(t, 5, ""))
	out, err := learn.Output()
	require.NoError(t, err)
	learned := string(out)
	require.Equal(t, `  ## These ports are down now. Take out those that should be active, and keep the line above all sections.
  expected_down = ["sim3:1"]

  [[inputs.rdma_events.expected]]
    devices = ["sim[0-2]", "sim4"]
    count = 4
    rate_gbps = 100
  [[inputs.rdma_events.expected]]
    devices = ["sim3"]
    count = 1
`, learned)

	text, code := runCommand(t, "check", "-config", simulatedHost(t, 5, learned))
	require.Equal(t, 0, code, text)
	require.Contains(t, text, "\nexpected: 4 of sim[0-2], sim4, with all ports active at 100 Gbit/s or more\n")
	text, code = runCommand(t, "status", "-dir", none, "-config", simulatedHost(t, 5, learned))
	require.Equal(t, 0, code, text)

	text, code = runCommand(t, "status", "-dir", none, "-config", simulatedHost(t, 5, strings.ReplaceAll(learned, `["sim3:1"]`, `[]`)))
	require.Equal(t, 2, code, text)
	require.Contains(t, text, "port-down")
	text, code = runCommand(t, "status", "-dir", none, "-config", simulatedHost(t, 5, strings.ReplaceAll(learned, "rate_gbps = 100", "rate_gbps = 200")))
	require.NotEqual(t, 0, code, text)
	require.Contains(t, text, "link-slow")

	text, code = runCommand(t, "check", "-config", simulatedHost(t, 4, learned))
	require.Equal(t, 1, code, text)
	text, code = runCommand(t, "status", "-dir", none, "-config", simulatedHost(t, 4, learned))
	require.Equal(t, 2, code, text)
	require.Contains(t, text, "devices-too-few")
	require.Contains(t, text, "1 of 4 that match sim[0-2], sim4")
	require.Contains(t, text, "device-missing", "sim4 has a name")
}
