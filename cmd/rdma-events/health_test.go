package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/agent/alerts"
	"rdma_events/internal/agent/health"
)

// largeStatus returns the status of a host with n devices. Each device has two ports. Each port has 16 probes, one per
// completion vector, and one problem.
func largeStatus(devices int, now time.Time) *health.Status {
	s := &health.Status{Schema: health.Schema, Host: "gpu-17", Time: now, Source: health.SourcePlugin}
	well := true
	for n := range devices {
		d := health.Device{
			Device: fmt.Sprintf("mlx5_%d", n), Driver: "mlx5_core", Firmware: "28.43.2566", BoardID: "MT_0000000838",
			PCIAddress: fmt.Sprintf("0000:%02x:00.0", n), Present: true, Open: true, WorkerState: "running", Reason: "ok",
		}
		for port := 1; port <= 2; port++ {
			d.Ports = append(d.Ports, health.Port{
				Port: port, State: "active", Since: now, PhysState: "LinkUp", LinkLayer: "InfiniBand", RateGbps: 400, RateBestGbps: 400,
			})
			for vector := range 16 {
				d.Probes = append(d.Probes, health.Probe{Port: port, Vector: vector, Method: "flush", OK: &well, WakeP99NS: 12_345})
			}
			for _, call := range []string{"query_port", "query_gid", "create_qp", "modify_qp", "destroy_qp", "create_cq", "destroy_cq", "reg_mr"} {
				d.Commands = append(d.Commands, health.Command{Port: port, Call: call, Status: "ok", TookP99NS: 123_456})
			}
			s.Problems = append(s.Problems, health.Problem{
				ID: "port-flapping", Severity: alerts.Warning, Device: d.Device, Port: port, Since: now, Text: "3 flaps in all",
			})
		}
		s.Devices = append(s.Devices, d)
	}
	return s
}

// Health checks run the command on each node with a time limit. The bound is ten times the documented one, for a busy
// machine.
func TestHealthAnswersInTimeForManyDevicesAndPlugins(t *testing.T) {
	dir := writeStatus(t, largeStatus(64, time.Now()))
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	require.NoError(t, err)
	text, err := os.ReadFile(files[0])
	require.NoError(t, err)
	for n := range 3 { // other plugins of this host, each of which watches all devices
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.json", n)), text, 0o644))
	}

	exe, err := os.Executable()
	require.NoError(t, err)
	for _, format := range []string{"text", "npd-warning"} {
		soon, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		cmd := exec.CommandContext(soon, exe, "health", "-dir", dir, "-format", format)
		cmd.Env = append(os.Environ(), asProgram+"=1")
		began := time.Now()
		out, err := cmd.Output()
		took := time.Since(began)
		require.NoError(t, soon.Err(), "it took 10 s")
		cancel()
		t.Logf("4 files of %d bytes: %s, of which %s on a processor", len(text), took, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, 1, exit.ExitCode())
		require.Regexp(t, `^mlx5_0:1 port-flapping since \d\d:\d\d; .*; 12\d more\n$`, string(out))
	}
}
