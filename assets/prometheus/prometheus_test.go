package prometheus_test

import (
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"rdma_events/tests/rig"
)

// telegrafPath returns the path of a Telegraf with Starlark and the output prometheus_client.
func telegrafPath(t *testing.T) string {
	t.Helper()
	return rig.Program(t, "TELEGRAF_LARGE_BIN", "tools/telegraf-large")
}

// shippedConfig returns the shipped configuration with another address and with changes.
func shippedConfig(t *testing.T, address string, changes ...string) string {
	t.Helper()
	text, err := os.ReadFile("telegraf.conf")
	require.NoError(t, err)
	require.Contains(t, string(text), `":9273"`)
	return strings.NewReplacer(append(changes, `":9273"`, fmt.Sprintf("%q", address))...).Replace(string(text))
}

func TestTelegrafTakesTheConfiguration(t *testing.T) {
	check := func(text string) (string, error) {
		file := filepath.Join(t.TempDir(), "telegraf.conf")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		out, err := exec.Command(telegrafPath(t), "config", "check", "--config", file).CombinedOutput()
		return string(out), err
	}
	out, err := check(shippedConfig(t, "127.0.0.1:0"))
	require.NoError(t, err, out)
	out, err = check(shippedConfig(t, "127.0.0.1:0", "def shape(metric)", "def shape(point)"))
	require.Error(t, err, out)
}

// scraped is a scrape of a Telegraf that runs the plugin on simulated devices.
type scraped struct {
	t        *testing.T
	address  string
	families map[string]*dto.MetricFamily
}

// startTelegraf runs the plugin under Telegraf with the shipped configuration.
func startTelegraf(t *testing.T, plugin string, changes ...string) (*scraped, *rig.Telegraf) {
	t.Helper()
	s := &scraped{t: t, address: freeAddress(t)}
	return s, rig.Start(t, rig.Config{Plugin: plugin, More: shippedConfig(t, s.address, changes...) + "\n[global_tags]\n  host = \"h1\"\n"})
}

// await scrapes until what the test waits for is there.
func (s *scraped) await(what string, there func() bool) {
	s.t.Helper()
	var last error
	require.Eventually(s.t, func() bool {
		if last = s.scrape(); last != nil {
			return false
		}
		return there()
	}, time.Minute, 100*time.Millisecond, what)
	require.NoError(s.t, last)
}

func (s *scraped) scrape() error {
	response, err := http.Get("http://" + s.address + "/metrics")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	s.families, err = parser.TextToMetricFamilies(response.Body)
	return err
}

// value returns the value of a series, whose labels are written as in "device=sim0", and
// whether it is there.
func (s *scraped) value(family string, labels ...string) (float64, bool) {
	for _, m := range s.families[family].GetMetric() {
		have := labelsOf(m)
		if slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(have, l) }) {
			continue
		}
		return m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue(), true
	}
	return 0, false
}

func (s *scraped) is(want float64, family string, labels ...string) bool {
	have, ok := s.value(family, labels...)
	return ok && have == want
}

func labelsOf(m *dto.Metric) (all []string) {
	for _, l := range m.GetLabel() {
		all = append(all, l.GetName()+"="+l.GetValue())
	}
	return all
}

func TestAHealthyDeviceHasTypedFamiliesAndFewSeries(t *testing.T) {
	t.Parallel()
	s, _ := startTelegraf(t, fmt.Sprintf(`[[inputs.rdma_events]]
  backend = "sim"
  [inputs.rdma_events.recorder]
    directory = %q
  [inputs.rdma_events.sim]
    profile = "fleet1"
`, filepath.Join(t.TempDir(), "records")))
	s.await("rounds", func() bool {
		n, _ := s.value("rdma_cq_probe_successes_total", "device=sim0")
		return n >= 3
	})
	for _, row := range []struct {
		want   float64
		family string
		labels []string
	}{
		{1, "rdma_port_up", []string{"host=h1", "device=sim0", "port=1"}},
		{12.5e9, "rdma_port_rate_bytes_per_second", []string{"device=sim0"}},
		{4096, "rdma_port_mtu_bytes", []string{"device=sim0"}},
		{4, "rdma_port_gids", []string{"device=sim0"}},
		{0, "rdma_port_gid_moves_total", []string{"device=sim0"}},
		{0, "rdma_port_down_seconds_total", []string{"device=sim0"}},
		{1, "rdma_port_info", []string{"link_layer=ethernet", "netdev=simeth0a", "width=4x"}},
		{0, "rdma_async_events_total", []string{"device=sim0", "port=1", "event=port_err"}},
		{0, "rdma_async_unacked", []string{"device=sim0", "port=1"}},
		{1, "rdma_device_info", []string{"driver=sim", "fw_ver=22.39.2048", "is_vf=0"}},
		{1, "rdma_device_status", []string{"worker_state=running", "reason=ok"}},
		{0, "rdma_device_crashes_total", []string{"device=sim0"}},
		{0, "rdma_cq_probe_lost_events_total", []string{"device=sim0", "method=ud_send"}},
		{0, "rdma_host_ports_down", []string{"host=h1"}},
		{0, "rdma_collector_dropped_points_total", []string{"host=h1"}},
		{0, "rdma_collector_record_errors_total", []string{"host=h1"}},
	} {
		have, ok := s.value(row.family, row.labels...)
		require.True(t, ok, "%s %v", row.family, row.labels)
		require.InDelta(t, row.want, have, 0, "%s %v", row.family, row.labels)
	}
	wake, ok := s.value("rdma_cq_probe_wake_p99_seconds", "device=sim0")
	require.True(t, ok)
	require.Positive(t, wake)
	require.Less(t, wake, 1.0, "it is in seconds")
	s.requireTyped()
	s.requireNames()
	ofDevice, ofHost, ofCommands := s.count()
	t.Logf("%d series of a healthy device, %d of its commands, %d of the host besides", ofDevice, ofCommands, ofHost)
	require.LessOrEqual(t, ofDevice, 75, "what a device costs a Prometheus")
	require.LessOrEqual(t, ofCommands, 2*10, "two calls: hw_counters and query_port")
}

// requireTyped requires that each family is a counter or a gauge by its name, and that no label
// comes from a string but those of info and status.
func (s *scraped) requireTyped() {
	s.t.Helper()
	identity := []string{"host", "device", "port", "vector", "method", "call", "event", "app", "unit", "object", "expected", "le",
		"plugin_instance", "alert", "severity", "of"}
	for name, f := range s.families {
		if !strings.HasPrefix(name, "rdma_") {
			continue
		}
		want := dto.MetricType_GAUGE
		switch {
		case strings.HasSuffix(name, "_total"):
			want = dto.MetricType_COUNTER
		case name == "rdma_cq_probe_wake_seconds":
			want = dto.MetricType_HISTOGRAM
		}
		require.Equal(s.t, want, f.GetType(), name)
		if strings.HasSuffix(name, "_info") || strings.HasSuffix(name, "_status") {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				require.Contains(s.t, identity, l.GetName(), name)
			}
		}
	}
}

// count returns how many series there are of a device, and of the host alone.
func (s *scraped) count() (ofDevice, ofHost, ofCommands int) {
	for name, f := range s.families {
		if !strings.HasPrefix(name, "rdma_") {
			continue
		}
		for _, m := range f.GetMetric() {
			switch {
			case strings.HasPrefix(name, "rdma_command_"):
				ofCommands++
			case slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == "device" }):
				ofDevice++
			default:
				ofHost++
			}
		}
	}
	return ofDevice, ofHost, ofCommands
}

// The labels of a series cannot change, so the series with the labels from before becomes 0.
func TestAChangedReasonEndsTheSeriesOfTheOneBefore(t *testing.T) {
	t.Parallel()
	scenario := filepath.Join(t.TempDir(), "scenario.toml")
	require.NoError(t, os.WriteFile(scenario, []byte("[[fault]]\nkind = \"removed\"\nat = \"4s\"\n"+
		"[[link]]\nat = \"3s\"\ndown_for = \"40ms\"\n"), 0o600))
	s, _ := startTelegraf(t, fmt.Sprintf(`[[inputs.rdma_events]]
  backend = "sim"
  [inputs.rdma_events.probe]
    histogram = true
  [inputs.rdma_events.sim]
    profile = "fleet1"
    scenario = %q
`, scenario))
	s.await("a device that works", func() bool { return s.is(1, "rdma_device_status", "reason=ok", "worker_state=running") })
	s.await("a device that is gone", func() bool { return s.is(1, "rdma_device_status", "reason=removed", "worker_state=stopped") })
	require.True(t, s.is(0, "rdma_device_status", "reason=ok", "worker_state=running"))
	require.True(t, s.is(1, "rdma_port_flaps_total", "device=sim0"), "a drop that was shorter than a scrape")
	require.True(t, s.is(1, "rdma_async_events_total", "event=port_err"))
	_, moments := s.families["rdma_port_change_transitions"]
	require.False(t, moments)
	s.requireHistogram("device=sim0", "method=ud_send", "port=1", "vector=0", "host=h1")
	s.requireTyped()
	s.requireLint()
}

// requireHistogram requires that the wake-up latencies of a probe with these labels are a histogram that adds up. It waits for the first
// wake-up.
func (s *scraped) requireHistogram(labels ...string) {
	s.t.Helper()
	var found *dto.Metric
	s.await("a wake-up of the probe "+strings.Join(labels, " "), func() bool {
		found = s.findHistogram(labels)
		return found.GetHistogram().GetSampleCount() > 0
	})
	require.Len(s.t, labelsOf(found), len(labels), "no label besides these")
	h := found.GetHistogram()
	require.Len(s.t, h.GetBucket(), 17)
	require.InDelta(s.t, 5e-6, h.GetBucket()[0].GetUpperBound(), 0, "5 us in seconds")
	require.True(s.t, math.IsInf(h.GetBucket()[16].GetUpperBound(), 1))
	require.Equal(s.t, h.GetSampleCount(), h.GetBucket()[16].GetCumulativeCount())
	mean := h.GetSampleSum() / float64(h.GetSampleCount())
	require.Positive(s.t, mean)
	require.Less(s.t, mean, 0.5, "the latencies of the simulator are microseconds; the sum is in seconds")
}

// findHistogram returns the wake-up latencies of a probe with these labels, or nil.
func (s *scraped) findHistogram(labels []string) *dto.Metric {
	for _, m := range s.families["rdma_cq_probe_wake_seconds"].GetMetric() {
		have := labelsOf(m)
		if !slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(have, l) }) {
			return m
		}
	}
	return nil
}

// requireLint requires that promtool finds nothing to object to in a scrape.
func (s *scraped) requireLint() {
	s.t.Helper()
	response, err := http.Get("http://" + s.address + "/metrics")
	require.NoError(s.t, err)
	defer response.Body.Close()
	check := exec.Command(rig.Program(s.t, "PROMTOOL_BIN", "tools/promtool"), "check", "metrics")
	check.Stdin = response.Body
	out, err := check.CombinedOutput()
	require.NoError(s.t, err, string(out))
	require.Empty(s.t, string(out))
}

// The histogram goes through a text, where a name that is no label's name of Prometheus would be an error.
func TestHistogramHasTheLabelsThatTheOutputMakesOfTags(t *testing.T) {
	t.Parallel()
	s := &scraped{t: t, address: freeAddress(t)}
	rig.Start(t, rig.Config{
		Plugin: "[[inputs.rdma_events]]\n  backend = \"sim\"\n  [inputs.rdma_events.probe]\n    histogram = true\n" +
			"  [inputs.rdma_events.sim]\n    profile = \"fleet1\"\n",
		More: shippedConfig(t, s.address) + "\n[global_tags]\n  host = \"h1\"\n  \"data-center\" = 'dc \"1\"\\a'\n  \"2nd\" = \"b\"\n  _under = \"c\"\n",
	})
	labels := []string{"data_center=dc \"1\"\\a", "host=h1", "device=sim0"}
	s.await("a histogram", func() bool { return s.families["rdma_cq_probe_wake_seconds"] != nil })
	_, shown := s.value("rdma_port_up", labels...)
	require.True(t, shown, "of the other series")
	for _, l := range labelsOf(s.families["rdma_port_up"].GetMetric()[0]) {
		if strings.HasSuffix(l, "=b") || strings.HasSuffix(l, "=c") {
			labels = append(labels, l)
		}
	}
	require.Len(t, labels, 5)
	s.requireHistogram(append(labels, "method=ud_send", "port=1", "vector=0")...)
}

// With both, other outputs get the original points.
func TestOriginalPointsPassBesideThem(t *testing.T) {
	t.Parallel()
	s, r := startTelegraf(t, `[[inputs.rdma_events]]
  backend = "sim"
  [inputs.rdma_events.probe]
    histogram = true
  [inputs.rdma_events.sim]
    profile = "fleet1"
`, "detail = false", "detail = true", "both = false", "both = true", "string_as_label = false", "string_as_label = false\n  tagpass = {for = [\"prometheus\"]}")
	s.await("a port", func() bool { return s.is(1, "rdma_port_up", "device=sim0") })
	require.NotContains(t, s.families, "rdma_port_state_name")
	s.await("what few people look at", func() bool { return s.families["rdma_cq_probe_hold_p99_seconds"] != nil })
	for name, f := range s.families {
		require.NotEqual(t, dto.MetricType_UNTYPED, f.GetType(), name)
	}
	s.requireHistogram("device=sim0", "method=ud_send", "port=1", "vector=0", "host=h1", "for=prometheus")
	points := r.Await("the original and the shaped point", time.Minute, func(points []rig.Point) bool {
		return rig.Last(points, "rdma_port", "for", "").Text("state_name") == "active" &&
			len(rig.Select(points, "rdma_port", "for", "prometheus")) > 0
	})
	require.NotEmpty(t, points)
}

// The plugin reports a problem once a minute. Between its reports the output has to show it longer than it keeps a
// series. After the end of the problem the series is 0 until it expires.
func TestLastingProblemIsShownBetweenItsReports(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	rig.Start(t, rig.Config{
		Plugin: "[[inputs.rdma_events]]\n  backend = \"sim\"\n  [inputs.rdma_events.sim]\n    profile = \"fleet1\"\n",
		More: shippedConfig(t, address, `expiration_interval = "30s"`, `expiration_interval = "2s"`) + `
[[inputs.execd]]
  command = ["sh", "-c", """n=0; while read -r _; do n=$((n+1))
    case $n in
    1) on=1 ;;
    10) on=0 ;;
    *) on= ;;
    esac
    if [ -n \"$on\" ]; then
      printf 'rdma_problem,host=other,device=mlx5_0,port=1,alert=port-down,severity=critical '
      printf 'active=%di,since_ns=1800000000000000000i,text=\"a\",do=\"b\"\\n' $on
    fi
    printf 'rdma_collector,host=other uptime_ns=%d000000000i\\n' $n
  done"""]
  signal = "STDIN"
  data_format = "influx"
[global_tags]
  host = "h1"
`,
	})
	s := &scraped{t: t, address: address}
	problem := []string{"host=other", "device=mlx5_0", "port=1", "alert=port-down", "severity=critical"}
	s.await("7 intervals after its only report", func() bool {
		n, _ := s.value("rdma_collector_uptime_seconds", "host=other")
		return n >= 8
	})
	if n, _ := s.value("rdma_collector_uptime_seconds", "host=other"); n < 10 {
		require.True(t, s.is(1, "rdma_problem_active", problem...), "the problem is still shown")
		require.True(t, s.is(1.8e9, "rdma_problem_since_seconds", problem...))
	}
	s.await("the end of the problem", func() bool { return s.is(0, "rdma_problem_active", problem...) })
	s.await("the expiry of its series", func() bool {
		_, shown := s.value("rdma_problem_active", problem...)
		return !shown
	})
	require.NotContains(t, s.families, "rdma_problem_text")
}
