package statusfile

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/agent/health"
	"rdma_events/internal/sys/clock"
	"rdma_events/internal/telemetry/measure"
)

func newHistory(device string) []health.AlertHistory {
	return []health.AlertHistory{{
		Alert: "port-down", Series: measure.Key{Measurement: "rdma_port", Device: device, Port: 1},
		HeldSince: time.Unix(1000, 0).UTC(), Began: time.Unix(999, 0).UTC(),
	}}
}

// runOnce runs a plugin that watches a device, knows a history, and ends. It returns the path of its file, as name.
func runOnce(t *testing.T, dir, device, name string, history []health.AlertHistory) string {
	w, err := NewWriter(dir, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	w.path = filepath.Join(dir, name)
	ctx, cancel := context.WithCancel(t.Context())
	w.Put(newStatus(device), history)
	cancel()
	w.Run(ctx)
	return w.path
}

func TestHistoryOfAPluginThatHasEndedIsRead(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*writingProcess)
		read   bool
	}{
		"stopped":                         {func(*writingProcess) {}, true},
		"killed":                          {func(w *writingProcess) { w.Ended, w.StartTicks = false, w.StartTicks+1 }, true},
		"killed in another PID namespace": {func(w *writingProcess) { w.Ended, w.Namespace = false, 1 }, true},
		"still running":                   {func(w *writingProcess) { w.Ended = false }, false},
		"before the last boot":            {func(w *writingProcess) { w.BootID = "another" }, false},
		"too long ago":                    {func(w *writingProcess) { w.WrittenNS = clock.Boot() - int64(maxHistoryAge+time.Minute) }, false},
		"a little less than too long ago": {func(w *writingProcess) { w.WrittenNS = clock.Boot() - int64(maxHistoryAge-time.Minute) }, true},
		"a version that wrote no boot ID": {func(w *writingProcess) { w.BootID = "" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := runOnce(t, dir, "mlx5_0", "1-1.json", newHistory("mlx5_0"))
			changeProcess(t, path, tt.change)
			if tt.read {
				require.Equal(t, newHistory("mlx5_0"), ReadHistory(dir))
			} else {
				require.Empty(t, ReadHistory(dir))
			}
		})
	}
}

func TestStatusOfAPluginThatHasStoppedIsNoStatus(t *testing.T) {
	dir := t.TempDir()
	runOnce(t, dir, "mlx5_0", "1-1.json", newHistory("mlx5_0"))
	_, err := Read(dir)
	require.ErrorIs(t, err, ErrNone)
	require.ErrorContains(t, err, "has ended")
}

// Two plugins with different devices are stopped at the same time, with a history each, and one of them is started and stopped again.
func TestLastPluginOfADeviceKnowsItsHistory(t *testing.T) {
	dir := t.TempDir()
	runOnce(t, dir, "mlx5_0", "1-1.json", newHistory("mlx5_0"))
	runOnce(t, dir, "mlx5_1", "1-2.json", newHistory("mlx5_1"))
	require.ElementsMatch(t, append(newHistory("mlx5_0"), newHistory("mlx5_1")...), ReadHistory(dir))
	runOnce(t, dir, "mlx5_0", "1-3.json", nil) // the port was active when it ended
	require.Equal(t, newHistory("mlx5_1"), ReadHistory(dir))
}

func TestFilesOfEndedPluginsAreRemovedWhenTheirHistoryIsTooOld(t *testing.T) {
	dir := t.TempDir()
	path := runOnce(t, dir, "mlx5_0", "1-1.json", newHistory("mlx5_0"))
	here, err := pidNamespace()
	require.NoError(t, err)
	require.True(t, removeStaleFiles(dir, here))
	changeProcess(t, path, func(w *writingProcess) { w.WrittenNS = clock.Boot() - int64(maxHistoryAge+time.Minute) })
	require.False(t, removeStaleFiles(dir, here))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}
