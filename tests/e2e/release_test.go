package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"rdma_events/tests/rig"
	"rdma_events/tests/schema"
)

// startReleasable starts Telegraf with two simulated devices and a directory for the plugin's status.
func startReleasable(t *testing.T) (r *rig.Telegraf, dir string) {
	t.Helper()
	dir = statusDir(t)
	plugin := strings.Replace(simConfig(writeScenario(t, "")), "backend", `devices = ["sim0", "sim1"]
  expect = ["sim0"]
  backend`, 1)
	r = rig.Start(t, rig.Config{
		Plugin: plugin, Interval: "200ms", RestartDelay: "1s", Env: []string{"RUNTIME_DIRECTORY=" + shortDir(t) + ":" + dir},
	})
	awaitReason(r, "sim0", "ok")
	awaitReason(r, "sim1", "ok")
	return r, dir
}

func awaitReason(r *rig.Telegraf, device, reason string) []rig.Point {
	open := map[bool]int64{true: 1}[reason == "ok"]
	return r.Await(device+" is "+reason, time.Minute, func(p []rig.Point) bool {
		d := rig.Last(p, "rdma_device", "device", device)
		return d.Text("reason") == reason && d.Int("open") == open
	})
}

// runRelease runs the command release or resume and returns its output.
func runRelease(t *testing.T, dir string, args ...string) string {
	t.Helper()
	text, code := runCommand(t, append(args, "-dir", dir)...)
	require.Zero(t, code, text)
	return text
}

// requireHealth requires that `health` soon has a line and an exit status.
func requireHealth(t *testing.T, dir string, code int, line string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		text, got := runCommand(t, "health", "-dir", dir)
		assert.Contains(c, text, line)
		assert.Equal(c, code, got)
	}, time.Minute, 100*time.Millisecond)
}

func TestReleasedDeviceIsClosedAndResumed(t *testing.T) {
	t.Parallel()
	r, dir := startReleasable(t)
	require.Regexp(t, `^sim0: closed, and released until [-0-9]+ [:0-9]+\n$`, runRelease(t, dir, "release", "-device", "sim0"))
	require.Len(t, r.Workers(), 1, "the worker has ended when the command returns")
	awaitReason(r, "sim0", "released")
	require.Equal(t, int64(1), rig.Last(r.Points(), "rdma_device", "device", "sim1").Int("open"))
	requireHealth(t, dir, 70, "cannot tell yet; sim0: the device is released\n")
	require.Eventually(t, func() bool {
		text, code := runCommand(t, "status", "-dir", dir)
		return code == 70 && strings.Contains(text, "NUMA node 0, released\n")
	}, time.Minute, 100*time.Millisecond)
	text, _ := runCommand(t, "status", "-dir", dir, "-json")
	schema.Require(t, "status", text)

	require.Contains(t, runRelease(t, dir, "release", "-for", "1h"), "all devices are released until ")
	require.Empty(t, r.Workers())
	require.Equal(t, "sim1: watched again\n", runRelease(t, dir, "resume", "-device", "sim1"))
	awaitReason(r, "sim1", "ok")
	require.Equal(t, "sim0: watched again\n", runRelease(t, dir, "resume"))
	awaitReason(r, "sim0", "ok")
	requireHealth(t, dir, 0, "no problems: 2 devices")
	require.Equal(t, "no device was released\n", runRelease(t, dir, "resume"))
	require.Contains(t, runRelease(t, dir, "release", "-device", "sim9"), "sim9: not open here; it is not opened before ")
	r.Stop()
	require.Contains(t, runRelease(t, dir, "release"), "no plugin runs with its status in ")
}

func TestReleaseOutlastsARestartAndNotItsTime(t *testing.T) {
	t.Parallel()
	r, dir := startReleasable(t)
	const span = 15 * time.Second
	began := time.Now()
	runRelease(t, dir, "release", "-for", span.String())
	require.Empty(t, r.Workers())
	before := rig.Children(t, r.PID())
	require.Len(t, before, 1)
	require.NoError(t, syscall.Kill(before[0], syscall.SIGKILL))
	require.Eventually(t, func() bool {
		now := rig.Children(t, r.PID())
		return len(now) == 1 && now[0] != before[0]
	}, time.Minute, 50*time.Millisecond)
	if time.Since(began) < span*2/3 { // else this host is too busy to see it
		awaitReason(r, "sim0", "released")
	}
	points := awaitReason(r, "sim0", "ok")
	require.GreaterOrEqual(t, time.Since(began), span, "never before the time is over")
	released := false
	for _, p := range rig.Select(points, "rdma_device", "device", "sim0") {
		released = released || p.Text("reason") == "released"
		if released && p.Time < began.Add(span).UnixNano() {
			require.Equal(t, "released", p.Text("reason"))
		}
	}
	require.True(t, released)
	r.Stop()
}

func TestReleaseIsRefusedWhereItCannotBeDone(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-for", "25h"}, {"-for", "0s"}, {"-device", "mlx5_*"}, {"-device", "../released"}, {"mlx5_0"}} {
		_, code := runCommand(t, append([]string{"release", "-dir", t.TempDir()}, args...)...)
		require.Equal(t, 64, code, args)
	}
	cmd := exec.CommandContext(t.Context(), rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), "release", "-dir", filepath.Join(t.TempDir(), "missing"))
	out, err := cmd.CombinedOutput()
	require.ErrorContains(t, err, "exit status 2")
	require.Contains(t, string(out), "E! write release: ")
	require.Equal(t, 1, strings.Count(string(out), "\n"))
}
