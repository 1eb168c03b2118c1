package rdma_events

import (
	"os"
	"testing"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/testutil"
	"github.com/stretchr/testify/require"
)

func TestThePluginIsRegistered(t *testing.T) {
	var p telegraf.ServiceInput = New()
	require.Equal(t, sampleConfig, p.SampleConfig())
}

func TestThePluginWatchesSimulatedDevices(t *testing.T) {
	var acc testutil.Accumulator
	log := &testutil.CaptureLogger{}
	p := New()
	p.Stop() // does nothing before Start
	p.Log, p.Backend, p.Probe.Method = log, "sim", "none"
	p.WorkerPath = "/bin/true"
	require.NoError(t, p.Init())
	require.NoError(t, p.Start(&acc))
	require.NoError(t, p.Gather(&acc))
	p.Stop()
	require.True(t, acc.HasMeasurement("rdma_collector"))
	require.Empty(t, log.Errors())
}

func TestTheSampleAtTheRepositoryRootIsTheSame(t *testing.T) {
	root, err := os.ReadFile("../../../sample.conf")
	require.NoError(t, err)
	require.Equal(t, sampleConfig, string(root))
}
