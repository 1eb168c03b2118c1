package main

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/agent"
)

func TestTheFlagsOfWatchOverrideTheConfiguration(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	path := configFile(t, "[[inputs.rdma_events]]\nworker_path = \""+exe+"\"\ndevices = [\"mlx5_*\"]\nprobe.interval = \"2s\"\n")
	for _, tt := range []struct {
		name     string
		args     []string
		devices  []string
		interval time.Duration
	}{
		{"none", nil, []string{"mlx5_*"}, 0},
		{"devices", []string{"-device", "a", "--device", "b*"}, []string{"a", "b*"}, 0},
		{"probe", []string{"--probe"}, []string{"mlx5_*"}, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var stderr bytes.Buffer
			o, code := parseWatchFlags(append([]string{"-config", path}, tt.args...), &stderr)
			require.Equal(t, exitOK, code, stderr.String())
			c, err := o.settings()
			require.NoError(t, err)
			require.Equal(t, tt.devices, c.Devices)
			require.Equal(t, agent.Duration(tt.interval), c.Probe.Interval)
			require.True(t, c.Probe.Histogram)
		})
	}
}

// The file is valid, and says more of the devices than one watch needs.
func TestWatchOfOneDeviceAcceptsWhatTheConfigurationExpects(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	path := configFile(t, "[[inputs.rdma_events]]\nworker_path = \""+exe+"\"\nexpect = [\"mlx5_0\", \"mlx5_1\"]\n"+
		"ports = [\"mlx5_0:2\", \"mlx5_1:1\", \"mlx5_2:1\"]\n[[inputs.rdma_events.expected]]\ndevices = [\"mlx5_[01]\"]\ncount = 2\n")
	o := watchFlags{config: path, devices: []string{"mlx5_0"}}
	c, err := o.settings()
	require.NoError(t, err)
	require.Equal(t, []string{"mlx5_0:2"}, c.Ports)
	require.Empty(t, c.Expect)
	require.Empty(t, c.Expected)
}

func TestProbesThatTheConfigurationTurnsOffAreTurnedOnByTheFlag(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	o := watchFlags{config: configFile(t, "[[inputs.rdma_events]]\nworker_path = \""+exe+"\"\nprobe.interval = \"0s\"\n"), probe: true}
	c, err := o.settings()
	require.NoError(t, err)
	require.Equal(t, agent.Duration(time.Second), c.Probe.Interval)
}

func TestApplicationsAreTracedOnlyWithTheFlag(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want bool
	}{{nil, false}, {[]string{"-apps"}, true}} {
		o, code := parseWatchFlags(tt.args, new(bytes.Buffer))
		require.Equal(t, exitOK, code)
		c, err := o.settings()
		if err != nil { // the programs are not beside a test
			require.ErrorContains(t, err, "_path")
		}
		require.Equal(t, tt.want, c.Applications.Events)
	}
}

func TestTheDemonstrationSimulatesItsDevices(t *testing.T) {
	o, code := parseWatchFlags([]string{"-demo", "-probe"}, new(bytes.Buffer))
	require.Equal(t, exitOK, code)
	c, err := o.settings()
	if err != nil { // the worker program is not beside a test
		require.ErrorContains(t, err, "worker_path")
	}
	require.True(t, c.Simulated())
	require.Equal(t, "mixed", c.Sim.Scenario)
}

func TestToWatchStartsNoTracer(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	o := watchFlags{config: configFile(t, "[[inputs.rdma_events]]\nworker_path = \""+exe+"\"\napplications.events = true\n")}
	c, err := o.settings()
	require.NoError(t, err)
	require.False(t, c.Applications.Events)
}

func TestTheTimeToWatchEnds(t *testing.T) {
	ctx, stop := limitContext(context.Background(), time.Millisecond)
	defer stop()
	<-ctx.Done()
	require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
}

func TestBlockCharactersNeedALocaleThatHasThem(t *testing.T) {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		t.Setenv(name, "")
	}
	require.False(t, isUTF8())
	t.Setenv("LANG", "C.UTF-8")
	require.True(t, isUTF8())
	t.Setenv("LC_ALL", "POSIX")
	require.False(t, isUTF8())
}
