package main

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// A script that names two devices must not believe that both are closed.
func TestASecondDeviceIsRefusedWhereOneIsTaken(t *testing.T) {
	for name, run := range map[string]func([]string, io.Writer, io.Writer) int{"release": releaseDevices, "resume": resumeDevices} {
		var stderr bytes.Buffer
		require.Equal(t, exitUsage, run([]string{"-device", "mlx5_0", "-device", "mlx5_1"}, io.Discard, &stderr), name)
		require.Contains(t, stderr.String(), `invalid value "mlx5_1" for flag -device: the flag may be given once`)
	}
}
