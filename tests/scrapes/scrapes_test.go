package scrapes_test

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"rdma_events/tests/rig"
	"rdma_events/tests/scrapes"
)

func shippedConfig(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../assets/prometheus/telegraf.conf")
	require.NoError(t, err)
	return string(text)
}

// An option that is emulated nowhere would make scrapes that a real Telegraf does not show.
func TestAnUnknownOptionOfTheOutputIsRefused(t *testing.T) {
	_, err := scrapes.ReadOutput(strings.Replace(shippedConfig(t), "  metric_version = 2\n", "  metric_version = 2\n  name_sanitization = \"utf8\"\n", 1))
	require.ErrorContains(t, err, "option outputs.prometheus_client.name_sanitization")
	_, err = scrapes.ReadOutput(strings.Replace(shippedConfig(t), "\n  metric_version = 2", "\n  metric_version = 1", 1))
	require.ErrorContains(t, err, "metric_version")
}

// A label that changes is 0 at once and gone after three intervals; a host that ends is gone then too.
func TestScrapesShowWhatTelegrafHasProcessedAndLetItExpire(t *testing.T) {
	output, err := scrapes.ReadOutput(shippedConfig(t))
	require.NoError(t, err)
	telegraf, err := scrapes.Start(rig.Program(t, "TELEGRAF_LARGE_BIN", "tools/telegraf-large"), shippedConfig(t), t.TempDir())
	require.NoError(t, err)
	defer func() { require.NoError(t, telegraf.Close()) }()
	metrics, err := telegraf.Shape([]byte("rdma_device,device=d reason=\"ok\" 10000000000\nrdma_device,device=d reason=\"removed\" 20000000000\n"))
	require.NoError(t, err)
	again, err := telegraf.Shape([]byte("rdma_port,device=d down_ns=5000000000i 20000000000\n"))
	require.NoError(t, err)
	require.Len(t, again, 1, "a second host")
	var text bytes.Buffer
	begin := time.Unix(15, 0)
	require.NoError(t, output.Each(append(metrics, again...), begin, begin.Add(time.Minute), 15*time.Second,
		func(at time.Time, found []*dto.MetricFamily) error {
			scrapes.Label(found, "j", "i")
			return scrapes.WriteOpenMetrics(&text, at, found)
		}))
	var samples []string
	for line := range strings.Lines(text.String()) {
		if !strings.HasPrefix(line, "#") {
			samples = append(samples, strings.TrimSpace(line))
		}
	}
	const labels = `device="d",instance="i",job="j"`
	ok, removed := `rdma_device_status{device="d",reason="ok",instance="i",job="j"}`, `rdma_device_status{device="d",reason="removed",instance="i",job="j"}`
	down := "rdma_port_down_seconds_total{" + labels + "} 5.0 "
	require.ElementsMatch(t, []string{
		ok + " 1.0 15.0", ok + " 0.0 30.0", removed + " 1.0 30.0", down + "30.0",
		ok + " 0.0 45.0", removed + " 1.0 45.0", down + "45.0",
	}, samples)
}
