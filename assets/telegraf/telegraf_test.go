package telegraf_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/tests/rig"
)

// check has Telegraf load a configuration and initialize its plugins.
func check(t *testing.T, text string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "telegraf.conf")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	out, err := exec.Command(rig.Program(t, "TELEGRAF_KAFKA_BIN", "tools/telegraf-kafka"), "config", "check", "--config", file).CombinedOutput()
	return string(out), err
}

func TestTelegrafTakesTheConfigurations(t *testing.T) {
	files, err := filepath.Glob("*.conf")
	require.NoError(t, err)
	require.Len(t, files, 2)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		out, err := check(t, string(text))
		require.NoError(t, err, "%s: %s", file, out)
	}
}

func TestTelegrafRefusesWhatIsWrongInThem(t *testing.T) {
	for file, change := range map[string][2]string{
		"kafka-host.conf":     {"routing_tag =", "routing_tags ="},
		"kafka-database.conf": {`offset = "oldest"`, `offset = "eldest"`},
	} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(text), change[0])
		out, err := check(t, strings.Replace(string(text), change[0], change[1], 1))
		require.Error(t, err, "%s: %s", file, out)
	}
}
