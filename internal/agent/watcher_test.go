package agent

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/sysfs"
	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/process"
	"rdma_events/internal/telemetry/measure"
)

func TestWorkersAreAskedForWhatIsConfigured(t *testing.T) {
	c, err := Parse(`
[[inputs.rdma_events]]
  ports = ["mlx5_0:2", "mlx5_0:1", "mlx5_1:1", "mlx5_0:02"]
  [inputs.rdma_events.probe]
    method = "flush"
    vectors = [-1]
    ack_batch = 8
    gid_index = 3
    pkey_index = 2
`)
	require.NoError(t, err)
	require.Equal(t, verbs.Request{
		Backend: verbs.BackendVerbs,
		Options: verbs.Options{
			Device: "mlx5_0", Ports: []int{2, 1}, StateInterval: 5 * time.Second, GIDInterval: time.Minute,
			CommandInterval: 10 * time.Second, CommandStuck: 5 * time.Second,
			SnapshotInterval: time.Minute, Ethtool: verbs.EthtoolLink,
			Probe: verbs.ProbeOptions{
				Interval: time.Second, Timeout: 500 * time.Millisecond, Method: verbs.MethodFlush,
				Vectors: []int{-1}, AckBatch: 8, GIDIndex: 3, PKeyIndex: 2,
			},
		},
	}, c.workerRequest("mlx5_0", c.Request()))

	c.Backend, c.Probe.Method, c.Ports = verbs.BackendSim, methodNone, nil
	all := c.Request()
	require.Positive(t, all.Sim.Epoch)
	r := c.workerRequest("mlx5_2", all)
	require.Equal(t, verbs.BackendSim, r.Backend)
	require.Equal(t, verbs.Simulation{Profile: "roce2", Seed: 1, Epoch: all.Sim.Epoch}, r.Sim)
	require.Empty(t, r.Options.Ports, "all ports are watched if none are listed")
	require.Zero(t, r.Options.Probe.Interval)
}

func TestGlobsAndPortsChooseDevices(t *testing.T) {
	for _, tt := range []struct {
		name                    string
		include, exclude, ports []string
		want                    []string
	}{
		{"default", []string{"*"}, nil, nil, []string{"mlx5_0", "mlx5_1", "rxe0"}},
		{"nothing included is everything", nil, nil, nil, []string{"mlx5_0", "mlx5_1", "rxe0"}},
		{"by glob", []string{"mlx5_*"}, nil, nil, []string{"mlx5_0", "mlx5_1"}},
		{"braces", []string{"mlx5_{1,2}"}, nil, nil, []string{"mlx5_1"}},
		{"several", []string{"rxe0", "mlx5_1"}, nil, nil, []string{"mlx5_1", "rxe0"}},
		{"excluded", []string{"*"}, []string{"mlx5_0", "r*"}, nil, []string{"mlx5_1"}},
		{"with a named port", []string{"*"}, nil, []string{"mlx5_1:1", "mlx5_1:2", "mlx5_7:1"}, []string{"mlx5_1"}},
		{"a named port of what is excluded", []string{"r*"}, nil, []string{"mlx5_1:1"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wants, err := (&Config{Devices: tt.include, DevicesExclude: tt.exclude, Ports: tt.ports}).DeviceFilter()
			require.NoError(t, err)
			var got []string
			for _, device := range []string{"mlx5_0", "mlx5_1", "rxe0"} {
				if wants(device) {
					got = append(got, device)
				}
			}
			require.Equal(t, tt.want, got)
		})
	}
}

func TestPortsAreWatchedAsNamed(t *testing.T) {
	c := Config{Ports: []string{"mlx5_0:17"}}
	require.True(t, c.WatchesPort("mlx5_0", 17, 0))
	require.False(t, c.WatchesPort("mlx5_0", 1, 0))
	require.False(t, c.WatchesPort("mlx5_1", 17, 0))
	c.Ports = nil
	require.True(t, c.WatchesPort("mlx5_1", verbs.MaxPorts, 0))
	require.False(t, c.WatchesPort("mlx5_1", verbs.MaxPorts+1, 0))
	require.True(t, c.WatchesPort("mlx5_1", verbs.MaxPorts+1, verbs.MaxPorts+1))
}

func TestMonitorGetsTheConfiguredValues(t *testing.T) {
	c := DefaultConfig()
	c.ExpectedDown, c.Expect = []string{"mlx5_1:2"}, []string{"mlx5_7"}
	c.Probe.Histogram, c.Probe.Stages, c.VirtualFunctions = true, true, new(bool)
	m, err := c.monitorConfig(fakeDiscovery{}, func(measure.Point) {}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.True(t, m.ExpectedDown("mlx5_1", 2))
	require.False(t, m.ExpectedDown("mlx5_1", 1))
	require.False(t, m.ExpectedDown("mlx5_0", 2))
	require.Equal(t, []string{"mlx5_7"}, m.Expect)
	require.True(t, m.Histogram && m.Stages)
	require.Equal(t, verbs.VirtualNone, m.VirtualFunctions)
	require.Equal(t, 5*time.Minute, m.Window)
	wall, mono, boot := m.Now()
	require.InDelta(t, time.Now().UnixNano(), wall, 1e10)
	require.Positive(t, mono)
	require.GreaterOrEqual(t, boot, mono)
}

func TestWorkersEndWithinTheShutdownTimeout(t *testing.T) {
	c := DefaultConfig()
	require.Equal(t, process.Timing{Grace: 1500 * time.Millisecond, Kill: 500 * time.Millisecond}, c.processTiming())
	require.Less(t, c.processTiming().Grace+c.processTiming().Kill, time.Duration(c.ShutdownTimeout)*3/4)
}

func TestTheSimulatorFindsItsDevices(t *testing.T) {
	c := DefaultConfig()
	c.Backend, c.Sim.Profile = verbs.BackendSim, "ib8"
	found, err := c.newDiscovery(c.Request(), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var devices []verbs.Found
	require.ErrorIs(t, found.Run(ctx, func(f []verbs.Found) {
		devices = f
		cancel()
	}), context.Canceled)
	require.Len(t, devices, 8)
}

func TestWorkersFindTheScenarioOfTheirHost(t *testing.T) {
	t.Chdir(t.TempDir())
	dir, err := os.Getwd()
	require.NoError(t, err)
	for given, want := range map[string]string{
		"": "", "mixed": "mixed", "/etc/storm.toml": "/etc/storm.toml",
		"storm.toml": dir + "/storm.toml", "./storm": dir + "/storm",
	} {
		c := Config{Backend: verbs.BackendSim, Sim: SimConfig{Scenario: given}}
		require.Equal(t, want, c.Request().Sim.Scenario)
	}
}

func TestAMissingWorkerIsNamedWithItsOption(t *testing.T) {
	c := DefaultConfig()
	c.WorkerPath = filepath.Join(t.TempDir(), "worker")
	_, err := c.openWorker()
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "worker_path")
	require.ErrorIs(t, c.Check(), os.ErrNotExist)
	a := New(&c, Options{Log: slog.New(slog.DiscardHandler)})
	require.ErrorIs(t, a.Start(&testutil.Accumulator{}), os.ErrNotExist)
}

func TestTheDefaultWorkerIsBesideTheProgram(t *testing.T) {
	c := DefaultConfig()
	_, err := c.openWorker()
	require.ErrorContains(t, err, "/"+WorkerName)
}

// This test uses the real parts. The glob matches no device.
func TestAPluginWithoutDevicesStartsGathersAndStops(t *testing.T) {
	own, err := os.Executable()
	require.NoError(t, err)
	c := DefaultConfig()
	c.WorkerPath, c.Devices, c.Expect = own, []string{"none"}, []string{"none"}
	require.NoError(t, c.Check())
	var acc testutil.Accumulator
	a := New(&c, Options{Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, a.Start(&acc))
	a.Gather()
	a.Stop(nil) // emits the queued points
	require.True(t, acc.HasMeasurement("rdma_collector"))
	for _, m := range acc.GetTelegrafMetrics() {
		requireDescribed(t, m.Name(), m.Fields())
	}
}

func requireDescribed(t *testing.T, measurement string, fields map[string]any) {
	t.Helper()
	i := slices.IndexFunc(measure.All(), func(m measure.Metric) bool { return m.Name == measurement })
	require.GreaterOrEqual(t, i, 0, measurement)
	table := measure.All()[i]
	for name := range fields {
		_, ok := table.Field(name)
		require.True(t, ok, "%s.%s", measurement, name)
	}
}

func TestNoWorkerIsStartedForADeviceThatHasJustGone(t *testing.T) {
	root := t.TempDir()
	node := filepath.Join(root, "class/infiniband_verbs/uverbs0")
	present := newPresenceCheck(sysfs.New(root), "mlx5_0")
	require.True(t, present(), "a worker may make the kernel load ib_uverbs")
	require.NoError(t, os.MkdirAll(node, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(node, "ibdev"), []byte("mlx5_0\n"), 0o600))
	require.True(t, present())
	require.NoError(t, os.RemoveAll(node))
	require.False(t, present(), "the kernel removes the node first")
}
