package agent

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/agent/release"
	"rdma_events/internal/device/monitor"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/clock"
	"rdma_events/internal/telemetry/measure"
)

// noDevices is a Discovery that finds no devices.
type noDevices struct{}

func (noDevices) Run(ctx context.Context, _ func([]verbs.Found)) error {
	<-ctx.Done()
	return ctx.Err()
}

// The plugin runs as a user with its own directory, and root writes a release to the directory of the services.
func TestReleaseInAnotherDirectoryIsNoticed(t *testing.T) {
	base, err := os.MkdirTemp("", "release") //nolint:usetesting // the path of a socket has to be short
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(base)) })
	own, other := filepath.Join(base, "own"), filepath.Join(base, "rdma_events-status")
	require.NoError(t, os.Mkdir(own, 0o755))
	require.NoError(t, os.Mkdir(other, 0o755))
	t.Setenv("RUNTIME_DIRECTORY", other)

	c := DefaultConfig()
	r := c.openReleases(own, slog.New(slog.DiscardHandler))
	m := monitor.New(monitor.Config{
		Discovery: noDevices{}, Emit: func(measure.Point) {}, Now: readClocks, Window: time.Minute, Released: r.isReleased,
	})
	r.listen(own)
	require.NotNil(t, r.server)
	ctx, cancel := context.WithCancel(t.Context())
	watched, kept := startGoroutine(func(context.Context) { _ = m.Run(ctx) }), startGoroutine(func(context.Context) { r.run(ctx, m) })
	t.Cleanup(func() {
		cancel()
		<-watched.done
		<-kept.done
		require.NoError(t, r.close())
	})
	require.NoError(t, release.Write(other, release.BootID(), release.Entry{Until: clock.Boot() + int64(time.Hour)}))
	require.Eventually(t, func() bool { return r.isReleased(verbs.Found{Name: "mlx5_0"}) }, 10*time.Second, 10*time.Millisecond)
}
