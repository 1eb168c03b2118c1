package agent

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/agent/statusfile"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/telemetry/measure"
)

// Telegraf gathers every five minutes. The port is down for two minutes between two gatherings.
func TestAHostIsJudgedBetweenLongIntervals(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "status")
	require.NoError(t, os.Mkdir(dir, 0o700))
	synctest.Test(t, func(t *testing.T) {
		var s statusKeeper
		var emitted problemLog
		s.start(dir, "v1", emitted.add, time.Now, slog.New(slog.DiscardHandler))
		defer func() { s.stop(t.Context()) }()
		port := func(state verbs.PortState) *measure.Port {
			return &measure.Port{Device: "mlx5_0", Port: 1, Known: true, HasState: true, State: state, ExpectedUp: true, At: time.Now()}
		}
		device := &measure.Device{Device: "mlx5_0", Present: true, Open: true, Opens: 1}
		problems := func() []string {
			synctest.Wait()
			found, err := statusfile.Read(dir)
			require.NoError(t, err)
			ids := []string{}
			for _, p := range found.Problems {
				ids = append(ids, p.ID)
			}
			return ids
		}
		s.rememberState(port(verbs.PortActive)) // before the first interval
		s.storeInterval([]measure.Point{device, port(verbs.PortActive)}, time.Now())
		require.Empty(t, problems())
		time.Sleep(30 * time.Second)
		s.rememberState(port(verbs.PortDown))
		time.Sleep(30 * time.Second)
		require.Empty(t, problems(), "a drop has to last for a minute")
		time.Sleep(60 * time.Second)
		require.Equal(t, []string{"port-down"}, problems())
		s.rememberState(port(verbs.PortActive))
		time.Sleep(2 * judgeInterval)
		require.Empty(t, problems())
		require.Equal(t, []string{"port-down active=true", "port-down active=false"}, emitted.read())
	})
}

// A plugin without a directory for its status still judges the host.
func TestProblemsAreEmittedWithoutAStatusFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s statusKeeper
		var emitted problemLog
		s.start("", "v1", emitted.add, time.Now, slog.New(slog.DiscardHandler))
		defer func() { s.stop(t.Context()) }()
		missing := func() []measure.Point {
			return []measure.Point{&measure.Device{Device: "mlx5_0", Opens: 1, Reason: "no_device", At: time.Now()}}
		}
		s.storeInterval(missing(), time.Now())
		require.Empty(t, emitted.read(), "a device has to be missing for a minute")
		time.Sleep(time.Minute)
		s.storeInterval(missing(), time.Now())
		require.Equal(t, []string{"device-missing active=true"}, emitted.read())
	})
}

// problemLog collects the problems that a judgement emits. It may be used concurrently.
type problemLog struct {
	mu       sync.Mutex
	problems []string
}

func (l *problemLog) add(p measure.Point) {
	l.mu.Lock()
	defer l.mu.Unlock()
	problem := p.(*measure.Problem)
	l.problems = append(l.problems, fmt.Sprintf("%s active=%t", problem.Alert, problem.Active))
}

func (l *problemLog) read() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.problems)
}
