package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/memory"
)

func TestForgetRemovesAPortOrADevice(t *testing.T) {
	dir := t.TempDir()
	m, err := memory.Open(dir, "4d8f0c2b8a7e4b7f9c1d2e3f4a5b6c7d", time.Now)
	require.NoError(t, err)
	for _, device := range []string{"mlx5_0", "mlx5_1"} {
		m.RememberDevice(device, memory.Identity{}, true)
		m.RememberPort(device, 2, 400)
	}
	_, err = m.Sync()
	require.NoError(t, err)
	for _, tt := range []struct {
		what, out, errors string
		code              int
	}{
		{"mlx5_1:2", "mlx5_1:2: no longer remembered\n", "", exitOK},
		{"mlx5_1:2", "", "W! mlx5_1:2: it was not remembered\n", exitWarning},
		{"mlx5_0", "mlx5_0: no longer remembered\n", "", exitOK},
		{"mlx5_7", "", "W! mlx5_7: it was not remembered\n", exitWarning},
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, tt.code, forgetSubject([]string{"-directory", dir, tt.what}, &stdout, &stderr), stderr.String())
		require.Equal(t, tt.out, stdout.String())
		require.Equal(t, tt.errors, stderr.String())
	}
	forgotten, err := m.Sync()
	require.NoError(t, err)
	require.ElementsMatch(t, []memory.Forgotten{{Device: "mlx5_0"}, {Device: "mlx5_1", Port: 2}}, forgotten)
}

func TestForgetRefusesWhatIsNoPort(t *testing.T) {
	for _, args := range [][]string{{}, {"mlx5_0:0"}, {"mlx5_0:256"}, {"mlx5_0:x"}, {"mlx5_*"}, {"mlx5_0", "mlx5_1"}} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, exitUsage, forgetSubject(args, &stdout, &stderr), args)
	}
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitFailed, forgetSubject([]string{"-directory", t.TempDir(), "mlx5_0"}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "no plugin has a memory in ")
}
