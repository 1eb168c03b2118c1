package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/sysfs"
)

func TestDeviceIsNamedOrTheOnlyOne(t *testing.T) {
	for _, c := range []struct {
		devices []string
		device  string
		want    string
		err     string
	}{
		{nil, "mlx5_0", "", "there is no RDMA device on this host"},
		{[]string{"mlx5_0"}, "", "mlx5_0", ""},
		{[]string{"mlx5_0", "mlx5_1"}, "mlx5_1", "mlx5_1", ""},
		{[]string{"mlx5_0", "mlx5_1"}, "", "", "name one of the devices with -device: mlx5_0, mlx5_1"},
		{[]string{"mlx5_0"}, "mlx5_9", "", `there is no device "mlx5_9"; there are: mlx5_0`},
		{[]string{"mlx5_0"}, "../mlx5_0", "", `there is no device "../mlx5_0"; there are: mlx5_0`},
	} {
		root := t.TempDir()
		for _, name := range c.devices {
			require.NoError(t, os.MkdirAll(filepath.Join(root, "class/infiniband", name), 0o755))
		}
		got, err := chooseDevice(sysfs.New(root), c.device)
		if c.err != "" {
			require.EqualError(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
}

func TestAllButYesIsNo(t *testing.T) {
	var out bytes.Buffer
	ask := newAsker(t.Context(), strings.NewReader("y\nYES \n\nn\nyellow\n"), &out)
	var got []bool
	for range 6 { // the last question gets no answer
		got = append(got, ask("Try it?"))
	}
	require.Equal(t, []bool{true, true, false, false, false, false}, got)
	require.Equal(t, 6, strings.Count(out.String(), "Try it? [y/N] "))
}

func TestQuestionEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	silent, speaker := io.Pipe()
	defer speaker.Close()
	var out bytes.Buffer
	ask := newAsker(ctx, silent, &out)
	cancel()
	require.False(t, ask("Try it?"))
	require.Empty(t, out.String())
}

func TestFileIsNamedByHostAndDevice(t *testing.T) {
	host, err := os.Hostname()
	require.NoError(t, err)
	path, err := hardwareFlags{device: "rocex525400123456"}.outputPath()
	require.NoError(t, err)
	require.Equal(t, "rdma-events-hardware-"+host+"-rocexx.json", path)
	path, err = hardwareFlags{device: "mlx5_0", out: "x.json"}.outputPath()
	require.NoError(t, err)
	require.Equal(t, "x.json", path)
}
