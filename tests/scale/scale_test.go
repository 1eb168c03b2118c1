package scale_test

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/tests/rig"
	"rdma_events/tests/scale"
)

func TestASmallFleetIsFilledInTwoRunsAndMeasured(t *testing.T) {
	var out bytes.Buffer
	built := filepath.Dir(filepath.Dir(rig.Program(t, "INFLUXD_BIN", "tools/influxd")))
	c := scale.Config{
		Plan: scale.Plan{Dir: t.TempDir(), Hosts: 2, Devices: 2, Interval: time.Minute, Seed: 1},
		Root: filepath.Dir(built), Out: &out, Now: time.Now, For: time.Nanosecond, Only: scale.InfluxDB,
	}
	require.NoError(t, scale.Run(t.Context(), c))
	require.Contains(t, out.String(), "not full yet")
	c.For = 0
	require.NoError(t, scale.Run(context.Background(), c))
	require.Contains(t, out.String(), "raw hour: 2 of 2 hosts")
	require.Contains(t, out.String(), "2 hosts with 2 devices")
	require.Regexp(t, `\| Hosts by last report \| A \| 2 \|`, out.String())
	require.Contains(t, out.String(), "continuous queries")

	c.Plan.Hosts = 3
	require.ErrorContains(t, scale.Run(t.Context(), c), "give the same, or remove it")
}

func TestASmallPrometheusIsFilledOnceAndMeasured(t *testing.T) {
	var out bytes.Buffer
	built := filepath.Dir(filepath.Dir(rig.Program(t, "PROMETHEUS_BIN", "tools/prometheus")))
	c := scale.Config{
		Plan: scale.Plan{Dir: t.TempDir(), Hosts: 21, Devices: 1, Interval: time.Minute, Seed: 1},
		Root: filepath.Dir(built), Out: &out, Now: time.Now, Only: scale.Prometheus,
	}
	require.NoError(t, scale.Run(t.Context(), c))
	require.Contains(t, out.String(), "21 hosts with 1 devices")
	require.Regexp(t, `\| Hosts by last report \| A \| 20 \|`, out.String())
	require.Regexp(t, `\| rdma:collector_report_timestamp_seconds:max5m \|  \| 21 \|`, out.String(), "of the copied host too")
	require.Contains(t, out.String(), "Rules of rdma_events, every 15s")

	out.Reset()
	require.NoError(t, scale.Run(t.Context(), c))
	require.NotContains(t, out.String(), "seven days", "it is full")
	c.Plan.Hosts = 3
	require.ErrorContains(t, scale.Run(t.Context(), c), "give the same, or remove it")
}
