package telegraf_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/tests/child"
	"rdma_events/tests/rig"
)

func telegrafPath(t *testing.T) string {
	t.Helper()
	return rig.Program(t, "TELEGRAF_LARGE_BIN", "tools/telegraf-large")
}

// checkConfig runs Telegraf, which loads a configuration and initializes its plugins. It returns the output of Telegraf.
func checkConfig(t *testing.T, text string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "telegraf.conf")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	out, err := exec.Command(telegrafPath(t), "config", "check", "--config", file).CombinedOutput()
	return string(out), err
}

func TestTelegrafTakesTheConfigurations(t *testing.T) {
	files, err := filepath.Glob("*.conf")
	require.NoError(t, err)
	require.Len(t, files, 4)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		out, err := checkConfig(t, string(text))
		require.NoError(t, err, "%s: %s", file, out)
	}
}

func TestTelegrafRefusesWhatIsWrongInThem(t *testing.T) {
	for file, change := range map[string][2]string{
		"kafka-host.conf":     {"routing_tag =", "routing_tags ="},
		"kafka-database.conf": {`offset = "oldest"`, `offset = "eldest"`},
		"own-database.conf":   {"namepass =", "name_pass ="},
		"whole-seconds.conf":  {"def apply(metric)", "def apply(point)"},
	} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Contains(t, string(text), change[0])
		out, err := checkConfig(t, strings.Replace(string(text), change[0], change[1], 1))
		require.Error(t, err, "%s: %s", file, out)
	}
}

func TestOnlyWhatComesEveryIntervalGetsWholeSeconds(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	lines := write("lines", "rdma_host flaps=1i 1700000000123456789\n"+
		"rdma_async_event,event=port_err count=1i 1700000000123456789\nrdma_port,device=d,port=1 up=1i 1700000000123456789\n")
	conf, err := os.ReadFile("whole-seconds.conf")
	require.NoError(t, err)
	out := filepath.Join(dir, "out")
	file := write("telegraf.conf", string(conf)+fmt.Sprintf(`
[agent]
  flush_interval = "100ms"
  omit_hostname = true
  skip_processors_after_aggregators = true
[[inputs.execd]]
  command = ["cat", %q, "-"]
  signal = "none"
  restart_delay = "1h"
  data_format = "influx"
[[outputs.file]]
  files = [%q]
`, lines, out))
	telegraf, err := child.Start(exec.Command(telegrafPath(t), "--config", file))
	require.NoError(t, err)
	defer func() { require.NoError(t, telegraf.Stop(30*time.Second)) }()
	var points []rig.Point
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(out)
		if err != nil {
			return false // not there yet
		}
		points, err = rig.Parse(text[:bytes.LastIndexByte(text, '\n')+1])
		return err == nil && len(points) == 3
	}, time.Minute, 50*time.Millisecond)
	require.EqualValues(t, 1700000000000000000, rig.Last(points, "rdma_host").Time)
	require.EqualValues(t, 1700000000123456789, rig.Last(points, "rdma_async_event").Time)
	require.EqualValues(t, 1700000000123456789, rig.Last(points, "rdma_port").Time)
}
