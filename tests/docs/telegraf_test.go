package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/tests/rig"
)

// docs/how-to/install.md says that Telegraf's --test prints the ports, though Telegraf's own
// documents promise no output of a service input there.
func TestTelegrafsTestPrintsPorts(t *testing.T) {
	plugin := rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events")
	telegraf := rig.Program(t, "TELEGRAF_BIN", "tools/telegraf")
	dir := t.TempDir()
	own := filepath.Join(dir, "rdma_events.conf")
	require.NoError(t, os.WriteFile(own, []byte("[[inputs.rdma_events]]\n  backend = \"sim\"\n"), 0o600))
	snippet := filepath.Join(dir, "snippet.conf")
	require.NoError(t, os.WriteFile(snippet, []byte(`[[inputs.execd]]
  command = ["`+plugin+`", "-config", "`+own+`", "-poll_interval_disabled"]
  signal = "STDIN"
  restart_delay = "10s"
  data_format = "influx"
`), 0o600))
	out, err := exec.CommandContext(t.Context(), telegraf, "--config", snippet, "--test", "--test-wait", "4").Output()
	require.NoError(t, err)
	for _, device := range []string{"sim0", "sim1"} {
		require.Regexp(t, "(?m)^> rdma_port,device="+device+",.*state_name=\"active\"", string(out))
	}
}
