package main

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// A script whose variable is empty must not release all devices.
func TestAnEmptyDeviceIsRefused(t *testing.T) {
	for name, run := range map[string]func(args []string, stdout, stderr io.Writer) int{
		"release": releaseDevices, "resume": resumeDevices, "status": showStatus, "events": showEvents, "report": writeReport,
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, exitUsage, run([]string{"-device", ""}, &stdout, &stderr), name)
		require.Contains(t, stderr.String(), `invalid value "" for flag -device: the name of the device is empty`, name)
		require.Empty(t, stdout.String(), name)
	}
}

// A script that names two devices must not believe that both are closed.
func TestASecondDeviceIsRefusedWhereOneIsTaken(t *testing.T) {
	doctor := func(args []string, _, stderr io.Writer) int { return runDoctor(append(args, "-hardware"), nil, stderr) }
	for name, run := range map[string]func(args []string, stdout, stderr io.Writer) int{
		"release": releaseDevices, "resume": resumeDevices, "status": showStatus, "events": showEvents, "report": writeReport, "doctor": doctor,
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, exitUsage, run([]string{"-device", "mlx5_0", "-device", "mlx5_1"}, &stdout, &stderr), name)
		require.Contains(t, stderr.String(), `invalid value "mlx5_1" for flag -device: only one device can be named`, name)
		require.Empty(t, stdout.String(), name)
	}
}
