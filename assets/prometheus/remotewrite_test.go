package prometheus_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"rdma_events/tests/rig"
)

// remoteWrite is the output of docs/how-to/prometheus.md for hosts that cannot be scraped, with another address.
func remoteWrite(t *testing.T, address string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/how-to/prometheus.md")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(text), "```toml\n[[outputs.http]]\n")
	require.True(t, found, "docs/how-to/prometheus.md has no [[outputs.http]]")
	block, _, _ := strings.Cut(after, "```")
	require.Contains(t, block, `"http://prometheus.example.com:9090/api/v1/write"`)
	return "\n[[outputs.http]]\n" + strings.Replace(block, "prometheus.example.com:9090", address, 1)
}

// seriesFamilies returns the names and label names of all series of the plugin in a Prometheus.
func seriesFamilies(t *testing.T, address string) map[string]string {
	t.Helper()
	response, err := http.Get("http://" + address + "/api/v1/series?match[]=" + url.QueryEscape(`{__name__=~"rdma_.+"}`))
	require.NoError(t, err)
	defer response.Body.Close()
	var answer struct{ Data []map[string]string }
	require.NoError(t, json.NewDecoder(response.Body).Decode(&answer))
	all := map[string]string{}
	for _, labels := range answer.Data {
		series := ""
		for _, name := range []string{"host", "device", "port", "vector", "method", "event", "le", "worker_state", "reason", "status"} {
			if labels[name] != "" {
				series += fmt.Sprintf("%s=%q ", name, labels[name])
			}
		}
		all[labels["__name__"]+" "+series] = labels["__name__"]
	}
	return all
}

// One Telegraf is scraped and writes, so both ways have the same points.
func TestRemoteWriteHasTheSeriesOfAScrape(t *testing.T) {
	scraping := freeAddress(t)
	written := freeAddress(t)
	startServer(t, written, exec.Command(rig.Program(t, "PROMETHEUS_BIN", "tools/prometheus"), "--config.file="+writeConfig(t, "global: {}"),
		"--storage.tsdb.path="+t.TempDir(), "--web.listen-address="+written, "--web.enable-remote-write-receiver"))
	scraper := startPrometheus(t, writeConfig(t,
		fmt.Sprintf(`scrape_configs: [{job_name: rdma, scrape_interval: 1s, static_configs: [{targets: [%q]}]}]`, scraping)))
	rig.Start(t, rig.Config{
		Plugin: "[[inputs.rdma_events]]\n  backend = \"sim\"\n[inputs.rdma_events.sim]\n  profile = \"roce2\"\n",
		More:   shippedConfig(t, scraping) + remoteWrite(t, written) + "\n[global_tags]\n  host = \"h1\"\n",
	})
	var scrapes, writes map[string]string
	require.Eventually(t, func() bool {
		scrapes, writes = seriesFamilies(t, scraper), seriesFamilies(t, written)
		if len(scrapes) < 50 {
			return false
		}
		for series := range scrapes {
			if writes[series] == "" {
				return false
			}
		}
		return true
	}, time.Minute, time.Second)
	for series := range writes {
		require.Contains(t, scrapes, series)
	}
	t.Logf("%d series by both", len(writes))
}

// A batch may end anywhere: within a histogram, and between the last repetition of a problem and its end. Prometheus refuses a whole batch with
// two values of one time, and Telegraf would send it again for ever.
func TestRemoteWriteInSmallBatchesIsNeverRefused(t *testing.T) {
	t.Parallel()
	written := freeAddress(t)
	startServer(t, written, exec.Command(rig.Program(t, "PROMETHEUS_BIN", "tools/prometheus"), "--config.file="+writeConfig(t, "global: {}"),
		"--storage.tsdb.path="+t.TempDir(), "--web.listen-address="+written, "--web.enable-remote-write-receiver"))
	config := shippedConfig(t, freeAddress(t), "remote_write = false", "remote_write = true") +
		strings.Replace(remoteWrite(t, written), "[[outputs.http]]\n", "[[outputs.http]]\n  metric_batch_size = 1\n", 1)
	require.Contains(t, config, "remote_write = true")
	telegraf := rig.Start(t, rig.Config{
		Plugin: "[[inputs.rdma_events]]\n  backend = \"sim\"\n[inputs.rdma_events.probe]\n  histogram = true\n[inputs.rdma_events.sim]\n  profile = \"roce2\"\n",
		More: config + `
[[inputs.execd]]
  command = ["sh", "-c", """n=0; while read -r _; do n=$((n+1)); t=$(date +%s%N)
    printf 'rdma_collector,host=other uptime_ns=%d000000000i %d\\n' $n $t
    case $n in
    1|5) on=1 ;;
    10) on=0 ;;
    *) on= ;;
    esac
    if [ -n \"$on\" ]; then
      printf 'rdma_problem,host=other,device=mlx5_0,port=1,alert=port-down,severity=critical '
      printf 'active=%di,since_ns=1800000000000000000i,text=\"a\",do=\"b\" %d\\n' $on $t
    fi
  done"""]
  signal = "STDIN"
  data_format = "influx"
[global_tags]
  host = "h1"
`,
	})
	value := func(query string) string {
		response, err := http.Get("http://" + written + "/api/v1/query?query=" + url.QueryEscape(query))
		require.NoError(t, err)
		defer response.Body.Close()
		var answer struct {
			Data struct{ Result []struct{ Value [2]any } }
		}
		require.NoError(t, json.NewDecoder(response.Body).Decode(&answer))
		if len(answer.Data.Result) == 0 {
			return ""
		}
		return fmt.Sprint(answer.Data.Result[0].Value[1])
	}
	require.EventuallyWithT(t, func(collect *assert.CollectT) {
		require.NotEmpty(collect, value(`rdma_collector_uptime_seconds{host="other"} > 15`), "%s", telegraf.Log())
		require.NotEmpty(collect, value(`rdma_cq_probe_wake_seconds_count{device="sim0"} > 15`))
	}, time.Minute, time.Second)
	require.Equal(t, "0", value(`rdma_problem_active{host="other"}`))
	require.Equal(t, value(`count(rdma_cq_probe_wake_seconds_bucket{le="+Inf"})`), value(`count(rdma_cq_probe_wake_seconds_count)`))
	require.Equal(t, "0", value(`count(rdma_cq_probe_wake_seconds_bucket{le="+Inf"}
		!= on(device, port, vector, method) rdma_cq_probe_wake_seconds_count) or vector(0)`))
	require.NotContains(t, telegraf.Log(), "400")
}

// writeConfig writes a configuration of Prometheus and returns its path.
func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "prometheus.yml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
