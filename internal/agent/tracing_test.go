package agent

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/applications/tracer"
	"rdma_events/internal/device/memory"
	"rdma_events/internal/device/monitor"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

func TestAMissingTracerIsNamedWithItsOptionAndWhatToDo(t *testing.T) {
	own, err := os.Executable()
	require.NoError(t, err)
	c := DefaultConfig()
	c.WorkerPath, c.Devices, c.Applications.Events = own, []string{"none"}, true
	c.Applications.TracerPath = filepath.Join(t.TempDir(), "tracer")
	err = c.Check()
	require.ErrorIs(t, err, ErrNoTracer)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.EqualError(t, err, `inputs.rdma_events: applications.tracer_path = "`+c.Applications.TracerPath+`": open program: open `+
		c.Applications.TracerPath+": no such file or directory; install rdma-events-tracer, or set applications.events = false")
	c.Applications.TracerPath = ""
	require.ErrorContains(t, c.Check(), "/"+tracer.ProgramName+": no such file")
	c.Applications.TracerPath = "/etc/passwd"
	require.ErrorContains(t, c.Check(), `applications.tracer_path = "/etc/passwd": open program /etc/passwd: not executable`)
	c.Applications.TracerPath = own
	require.NoError(t, c.Check())
}

// counter is a slog.Handler that keeps the messages of level Warn and above.
type counter struct {
	slog.Handler
	mu    sync.Mutex
	lines []string
}

func (c *counter) Enabled(context.Context, slog.Level) bool { return true }

func (c *counter) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Level >= slog.LevelWarn {
		c.lines = append(c.lines, r.Message)
	}
	return nil
}

// A package manager removes the tracer program and installs it again later.
func TestPluginGoesOnWithoutATracerAndTakesItLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), tracer.ProgramName)
	c := DefaultConfig()
	c.Applications.Events, c.Applications.TracerPath = true, path
	picture, err := c.Applications.newInventory(verbs.BackendVerbs, c.Request(), func(measure.Point) {})
	require.NoError(t, err)
	log := &counter{}
	synctest.Test(t, func(t *testing.T) {
		now := c.newTracerService(&programs{}, picture, c.Request(), nil, slog.New(log))
		ctx, cancel := context.WithCancel(t.Context())
		found := make(chan bool)
		go func() { found <- now.openProgram(ctx) }()
		time.Sleep(10 * tracerRetryInterval)
		synctest.Wait()
		got := tracerOf(t, picture.Points(time.Now(), now.workerStatus()))
		require.False(t, got.Attached)
		require.Equal(t, status.StateBackingOff, got.Worker.State)
		require.Equal(t, status.ReasonNoProgram, got.Worker.Reason)
		require.Contains(t, got.Worker.Message, "install rdma-events-tracer")
		require.Len(t, log.lines, 1)
		require.Contains(t, log.lines[0], "tracer: open failed, applications are not traced")

		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755))
		begin := time.Now()
		now.wake()
		require.True(t, <-found)
		require.Equal(t, begin, time.Now(), "a new device triggers the next attempt at once")
		require.NoError(t, now.programs.close())

		require.NoError(t, os.Remove(path))
		go func() { found <- now.openProgram(ctx) }()
		time.Sleep(time.Second)
		cancel()
		require.False(t, <-found)
	})
}

func TestDevicesAreWatchedWithoutATracer(t *testing.T) {
	own, err := os.Executable()
	require.NoError(t, err)
	c := DefaultConfig()
	c.WorkerPath, c.Devices, c.Applications.Events = own, []string{"none"}, true
	c.Applications.TracerPath = filepath.Join(t.TempDir(), "tracer")
	d, err := Open(&c, func(measure.Point) {}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { assert.NoError(t, d.Run(ctx)) })
	require.Eventually(t, func() bool {
		return tracerOf(t, d.Gather(time.Now()).Points).Worker.Reason == status.ReasonNoProgram
	}, time.Minute, 10*time.Millisecond)
	cancel()
	running.Wait()
	require.NoError(t, d.Close())
}

func TestWithoutEventsThereIsNoTracer(t *testing.T) {
	own, err := os.Executable()
	require.NoError(t, err)
	for _, objects := range []bool{false, true} {
		c := DefaultConfig()
		c.WorkerPath, c.Devices = own, []string{"none"}
		c.Applications.Objects, c.Applications.TracerPath = objects, "/nonexistent/tracer"
		require.NoError(t, c.Check(), "its program is not looked for")
		o := partOpener{
			config: &c, request: c.Request(), emit: func(measure.Point) {}, memory: memory.New(time.Now), log: slog.New(slog.DiscardHandler),
			monitor: &monitor.Config{},
		}
		parts, err := o.openParts()
		require.NoError(t, err)
		require.Nil(t, o.tracer)
		require.Nil(t, o.programs.tracer)
		require.NoError(t, closeParts(parts))
	}
}

func TestTheTracerIsAskedForWhatIsConfigured(t *testing.T) {
	c := DefaultConfig()
	require.Equal(t, trace.Request{Backend: verbs.BackendVerbs, HangAfter: 10 * time.Second}, c.traceRequest(c.Request()))
	c.Backend, c.Sim.Scenario, c.Applications.HangAfter = verbs.BackendSim, "/etc/a.toml", 7
	all := c.Request()
	require.Equal(t, trace.Request{Backend: verbs.BackendSim, Sim: all.Sim, HangAfter: 7}, c.traceRequest(all))
	require.Equal(t, []string{"/etc/a.toml"}, c.WorkerFiles(all))
}

// tracerOf returns the point of rdma_tracer.
func tracerOf(t *testing.T, points []measure.Point) *measure.Tracer {
	t.Helper()
	for _, p := range points {
		if found, ok := p.(*measure.Tracer); ok {
			return found
		}
	}
	t.Fatalf("no rdma_tracer among %d points", len(points))
	return nil
}

func TestWhatTheTracerSaysIsInThePictureOfApplications(t *testing.T) {
	c := DefaultConfig()
	c.Applications.Events = true
	picture, err := c.Applications.newInventory(verbs.BackendVerbs, c.Request(), func(measure.Point) {})
	require.NoError(t, err)
	now := &tracerService{apps: picture, log: slog.New(slog.DiscardHandler)}
	point := func() *measure.Tracer { return tracerOf(t, picture.Points(time.Now(), now.workerStatus())) }
	now.Status(status.Status{State: status.StateStarting, Reason: status.ReasonOK})
	require.Equal(t, status.StateStarting, point().Worker.State)
	require.False(t, point().Attached)
	running := status.Status{State: status.StateRunning, Reason: status.ReasonOK, Restarts: 2, PID: os.Getpid()}
	now.Attached(trace.Attached{Hooks: "kprobe", Missing: []string{"ib_uverbs_release_ucq"}}, running)
	now.Update(&trace.Update{Lost: 1})
	got := point()
	require.True(t, got.Attached)
	require.Equal(t, running, got.Worker)
	require.Equal(t, 1, got.Missing)
	require.EqualValues(t, 1, got.Lost)
	require.Positive(t, got.RSS)
	now.Ended(status.End{Reason: status.ReasonRemoved})
	now.Status(status.Status{State: status.StateBackingOff, Reason: status.ReasonRemoved, Restarts: 2})
	got = point()
	require.False(t, got.Attached)
	require.EqualValues(t, 1, got.Gaps)
	require.Zero(t, got.RSS)
}

func TestATracerIsWokenForDevicesThatCanBeOpenedNow(t *testing.T) {
	none, mlx := verbs.Found{Name: "mlx5_0", Index: 1}, verbs.Found{Name: "mlx5_0", Index: 1, Node: "uverbs0"}
	second := verbs.Found{Name: "mlx5_1", Index: 2, Node: "uverbs1"}
	var order []string
	w := wakingDiscovery{fakeDiscovery{{}, {none}, {mlx}, {mlx, second}, {second}, {none, second}, {mlx, second}}, func() { order = append(order, "woken") }}
	require.NoError(t, w.Run(t.Context(), func(found []verbs.Found) {
		var names []string
		for _, f := range found {
			names = append(names, f.Name+f.Node)
		}
		order = append(order, strings.Join(names, " "))
	}))
	require.Equal(t, []string{
		"", "mlx5_0",
		"woken", "mlx5_0uverbs0",
		"woken", "mlx5_0uverbs0 mlx5_1uverbs1",
		"mlx5_1uverbs1", "mlx5_0 mlx5_1uverbs1",
		"woken", "mlx5_0uverbs0 mlx5_1uverbs1",
	}, order)
}

// The program is not a tracer. The test does not use false(1), because that closes its standard output before it exits,
// and the supervisor might kill it in between.
func TestTheTracerIsSupervised(t *testing.T) {
	program, err := exec.LookPath("go")
	require.NoError(t, err)
	c := DefaultConfig()
	c.Devices, c.WorkerPath = []string{"none"}, program
	c.Applications.Events, c.Applications.TracerPath = true, program
	d, err := Open(&c, func(measure.Point) {}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	tracer := func() status.Status {
		return tracerOf(t, d.Gather(time.Now()).Points).Worker
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { assert.NoError(t, d.Run(ctx)) })
	require.Eventually(t, func() bool { return tracer().State == status.StateBackingOff }, time.Minute, 10*time.Millisecond)
	last := tracer()
	require.Equal(t, status.ReasonCrashed, last.Reason)
	require.Contains(t, last.Message, "is not an rdma-events-tracer of this release")
	require.Contains(t, last.Message, "check applications.tracer_path")
	cancel()
	running.Wait()
	require.Equal(t, status.Status{State: status.StateStopped, Reason: status.ReasonOK, Restarts: tracer().Restarts, Crashes: tracer().Crashes}, tracer())
	require.NoError(t, d.Close())
}
