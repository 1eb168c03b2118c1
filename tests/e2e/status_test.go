package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/tests/rig"
	"rdma_events/tests/schema"
)

// thrice drops the link three times, which is what port-flapping asks for.
const thrice = `[[event]]
at = "5s"
every = "200ms"
times = 3
type = "port_err"

[[event]]
at = "5.1s"
every = "200ms"
times = 3
type = "port_active"
`

// statusDir returns a directory as systemd makes it for the status files of a service.
func statusDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(shortDir(t), "rdma_events-status")
	require.NoError(t, os.Mkdir(dir, 0o700))
	return dir
}

// startReporting starts the plugin with a status file in a directory.
func startReporting(t *testing.T, dir, config string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), "-config", config, "-poll_interval", "200ms")
	cmd.Env = append(os.Environ(), "RUNTIME_DIRECTORY="+shortDir(t)+":"+dir)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = stdin.Close() }) // it is closed when the plugin has ended
	require.NoError(t, cmd.Start())
	return cmd
}

// runCommand runs a command, and returns its standard output and its exit status.
func runCommand(t *testing.T, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), args...)
	cmd.Env = append(os.Environ(), "RUNTIME_DIRECTORY="+shortDir(t))
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func TestStatusAndHealthComeFromTheRunningPluginAndNotFromADeadOne(t *testing.T) {
	t.Parallel()
	dir := statusDir(t)
	conf := writeFile(t, "rdma_events.conf", strings.Replace(simConfig(writeScenario(t, thrice)), "backend", `devices = ["sim0"]
  backend`, 1), 0o644)

	line, code := runCommand(t, "health", "-dir", dir)
	require.Equal(t, "cannot tell: no running plugin reports the status of this host\n", line)
	require.Equal(t, 70, code)
	_, code = runCommand(t, "health", "-dir", dir, "-format", "npd")
	require.Equal(t, 2, code)
	_, code = runCommand(t, "health", "-dir", dir, "-format", "npd-warning")
	require.Zero(t, code, "what is unknown is no event of a node")
	text, _ := runCommand(t, "health", "-dir", dir, "-json")
	schema.Require(t, "health", text)

	plugin := startReporting(t, dir, conf)
	require.Eventually(t, func() bool {
		line, code = runCommand(t, "health", "-dir", dir)
		return code == 1
	}, time.Minute, 200*time.Millisecond)
	require.Regexp(t, `^sim0:1 port-flapping since \d\d:\d\d\n$`, line)
	npd, code := runCommand(t, "health", "-dir", dir, "-format", "npd")
	require.Equal(t, line, npd)
	require.Zero(t, code, "a warning is no condition of a node")
	_, code = runCommand(t, "health", "-dir", dir, "-format", "npd-warning")
	require.Equal(t, 1, code)
	text, code = runCommand(t, "health", "-dir", dir, "-json")
	require.Equal(t, 1, code)
	schema.Require(t, "health", text)

	text, code = runCommand(t, "status", "-dir", dir)
	require.Equal(t, 1, code)
	require.Contains(t, text, "    port 1: active since ")
	require.Contains(t, text, "3 flaps, the last at ")
	require.Contains(t, text, "warning   sim0:1 port-flapping: 3 flaps in all, since ")
	text, code = runCommand(t, "status", "-dir", dir, "-json")
	require.Equal(t, 1, code)
	schema.Require(t, "status", text)
	require.Contains(t, text, `"source": "plugin"`)
	text, code = runCommand(t, "status", "-dir", dir, "-device", "mlx5_*")
	require.Equal(t, 70, code, "no device is the one that was asked for")
	require.Contains(t, text, "no devices\n")
	_, code = runCommand(t, "status", "-dir", dir, "-device", "[")
	require.Equal(t, 64, code)

	require.NoError(t, plugin.Process.Kill())
	_ = plugin.Wait() // it was killed
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.NotEmpty(t, left, "a killed plugin removes nothing")
	_, code = runCommand(t, "health", "-dir", dir)
	require.Equal(t, 70, code)
	text, code = runCommand(t, "status", "-dir", dir, "-config", conf, "-json")
	require.Zero(t, code, text)
	schema.Require(t, "status", text)
	require.Contains(t, text, `"source": "look"`)
	require.Contains(t, text, `"state": "active"`)

	plugin = startReporting(t, dir, conf)
	require.Eventually(t, func() bool {
		_, code = runCommand(t, "health", "-dir", dir)
		return code != 70
	}, time.Minute, 200*time.Millisecond)
	for _, file := range left {
		// What it had not finished goes after a minute, for a plugin that lives may be writing it.
		if strings.HasSuffix(file.Name(), ".json") {
			require.NoFileExists(t, filepath.Join(dir, file.Name()), "the next plugin removes what a killed one left")
		}
	}
	require.NoError(t, plugin.Process.Signal(os.Interrupt))
	require.NoError(t, plugin.Wait())
	requireEmpty(t, dir)
}

// A status that cannot be written costs the status alone.
func TestAStatusDirectoryThatGoesSilencesNoMetric(t *testing.T) {
	t.Parallel()
	dir := statusDir(t)
	conf := writeFile(t, "rdma_events.conf", simConfig(writeScenario(t, thrice)), 0o644)
	cmd := exec.CommandContext(t.Context(), rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), "-config", conf, "-poll_interval_disabled")
	cmd.Env = append(os.Environ(), "RUNTIME_DIRECTORY="+shortDir(t)+":"+dir)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Start())
	prompt := func() {
		_, err := stdin.Write([]byte("\n"))
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		prompt()
		files, err := os.ReadDir(dir)
		return err == nil && len(files) > 0
	}, time.Minute, 50*time.Millisecond)
	require.NoError(t, os.Rename(dir, dir+"-gone")) // at one moment, also while a file is written
	for range 20 {
		prompt()
		time.Sleep(50 * time.Millisecond) // prompts that come together are one
	}
	require.NoError(t, stdin.Close())
	require.NoError(t, cmd.Wait())
	require.Positive(t, strings.Count(stdout.String(), "rdma_collector "), stderr.String())
	require.Equal(t, 1, strings.Count(stderr.String(), "write status: "), stderr.String())
}

func TestTheJSONOfWatchAndDoctorIsAsItsSchemaSays(t *testing.T) {
	t.Parallel()
	lines, code := runCommand(t, "watch", "-demo", "-probe", "-json", "-for", "8s")
	require.Zero(t, code)
	kinds := map[string]bool{}
	for line := range strings.Lines(lines) {
		schema.Require(t, "watch", line)
		var record struct{ Kind string }
		require.NoError(t, json.Unmarshal([]byte(line), &record))
		kinds[record.Kind] = true
	}
	for _, kind := range []string{"log", "device", "port", "event", "probe"} {
		require.True(t, kinds[kind], "no record of kind %s in\n%s", kind, lines)
	}
	text, _ := runCommand(t, "doctor", "-json")
	schema.Require(t, "doctor", text)
}
