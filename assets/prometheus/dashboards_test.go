package prometheus_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/assets/grafana"
	"rdma_events/tests/rig"
)

// bad is a time in which a bit of everything happens, so that each panel has something to show.
const bad = `
[[link]]
at = "6s"
every = "4s"
device = "sim0"
down_for = "200ms"
[[gid]]
at = "7s"
every = "5s"
device = "sim0"
index = 3
to = 6
away = "100ms"
[[event]]
type = "device_fatal"
at = "8s"
every = "5s"
device = "sim0"
[[link]]
at = "65s" # a port that was active for a minute should be up
device = "sim1"
[[link]]
at = "6s"
device = "sim3"
down_for = "1s"
lanes = 1
[[fault]]
kind = "removed"
at = "6s"
device = "sim2"
[[fault]]
kind = "lost_event"
at = "6s"
for = "3s"
every = "12s"
device = "sim3"
[[fault]]
kind = "lost_completion"
at = "10s"
for = "3s"
every = "12s"
device = "sim3"
[[fault]]
kind = "completion_error"
at = "14s"
for = "3s"
every = "12s"
device = "sim3"
[[fault]]
kind = "crash"
at = "9s"
every = "20s"
device = "sim3"
[[command]]
at = "3s"
device = "sim1"
what = "fails"
`

// neighbour writes what Telegraf's input infiniband would, of which this Telegraf is without.
const neighbour = `
[[inputs.execd]]
  command = ["sh", "-c", """n=0; while read -r _; do n=$((n+1))
    printf 'infiniband,device=sim0,port=1 port_rcv_data=%di,port_xmit_data=%di,port_xmit_discards=%di,symbol_error=%di\\n' $n $n $n $n
  done"""]
  signal = "STDIN"
  data_format = "influx"
`

// traced writes what the plugin would of an application and of the tracer: from one moment to the next there is one more
// error, and none is read.
const traced = `
[[inputs.execd]]
  command = ["sh", "-c", """n=0; while read -r _; do n=$((n+1))
    printf 'rdma_app,device=sim0,app=python3,unit=job_7 processes=1i,contexts=1i,pds=1i,cqs=2i,srqs=0i,qps=4i,qps_rts=3i,qps_error=1i\\n'
    printf 'rdma_app_async,device=sim0,app=python3,unit=job_7 unread=%di,unread_errors=%di,unread_age_ns=%d000000000i,qp_fatal=%di\\n' $n $n $n $n
    printf 'rdma_app_hang,device=sim0,app=python3,object=qp threads=1i,age_ns=%d000000000i,missing=1i,' $n
    printf 'pid=71i,tid=73i,number=284i,unit=\"job_7\",proof=\"asleep\"\\n'
    printf 'rdma_tracer attached=1i,hooks=\"kprobe\",hooks_missing=0i,worker_state=\"running\",reason=\"ok\",gaps=0i,blind_ns=0i,'
    printf 'lost_records=0i,map_full=0i,processes=1i,rss_bytes=12582912i\\n'
    printf 'rdma_host app_errors=%di,app_hangs=1i,app_unread_errors=%di\\n' $n $n
  done"""]
  signal = "STDIN"
  data_format = "influx"
`

// probed writes what the plugin would of probes between hosts, with each verdict and each reason.
const probed = `
[[inputs.execd]]
  command = ["sh", "-c", """n=0; while read -r _; do n=$((n+1))
    counts=$(printf 'pairs=8i,pairs_met=7i,pairs_bad=1i,pairs_busy=1i,pairs_down=0i,sent=%d0i,answered=%d0i,forward_lost=%di,' $n $n $n
      printf 'reverse_lost=%di,busy_lost=%di,unknown_lost=%di,pending=0i,writes=%d0i,write_ns_p99=12000i' $n $n $n $n)
    for scope in group across; do
      printf 'rdma_fabric,own_group=a,peer_group=%s,scope=%s %s\\n' $scope $scope $counts
      for v in path partial lossy_both lossy_forward lossy_reverse own_link peer_port peer_down peer_busy starting; do for d in 0 1; do
        printf 'rdma_fabric_peer,device=sim%d,port=1,own_group=a,peer_host=%s,peer_device=sim0,peer_group=a,scope=%s ' $d $v $scope
        printf 'verdict=\"%s\",bad=1i,age_ns=1i,lost=1i\\n' $v
      done; done
      for r in no_responder key not_listed full version no_common_gid pkey unsupported not_active failed; do
        printf 'rdma_fabric_peer,device=sim0,port=1,own_group=a,peer_host=%s,peer_group=a,scope=%s ' $r $scope
        printf 'reason=\"%s\",bad=0i,age_ns=1i,lost=0i\\n' $r
      done
    done
    printf 'rdma_fabric_port,device=sim0,port=1,own_group=a %s,echoed=%di,refused=%di,foreign=%di,dry=%di,' $counts $n $n $n $n
    printf 'bad=1i,verdict=\"own_link\",verdict_age_ns=1i,list=\"0123456789abcdef\"\\n'
  done"""]
  signal = "STDIN"
  data_format = "influx"
`

// startFilled starts a Prometheus and a Telegraf, and returns the address of the Prometheus once it has the data of all panels.
func startFilled(t *testing.T) (address string) {
	t.Helper()
	telegraf := freeAddress(t)
	address = startPrometheus(t, editedFile(t, "prometheus.yml", "scrape_interval: 15s", "scrape_interval: 1s",
		"evaluation_interval: 15s", "evaluation_interval: 1s", "rules.yml", editedFile(t, "rules.yml", "interval: 5m", "interval: 1s"),
		"127.0.0.1:9273", telegraf))
	scenario := filepath.Join(t.TempDir(), "scenario.toml")
	require.NoError(t, os.WriteFile(scenario, []byte(bad), 0o600))
	rig.Start(t, rig.Config{
		Plugin: fmt.Sprintf("[[inputs.rdma_events]]\n  backend = \"sim\"\n  [inputs.rdma_events.evidence]\n    command_interval = \"1s\"\n"+
			"  [inputs.rdma_events.recorder]\n    directory = %q\n"+
			"  [inputs.rdma_events.sim]\n    profile = \"fleet4\"\n    scenario = %q\n", filepath.Join(t.TempDir(), "records"), scenario),
		More: shippedConfig(t, telegraf, "detail = false", "detail = true") + neighbour + traced + probed + "\n[global_tags]\n  host = \"h1\"\n  site = \"s1\"\n",
	})
	for _, enough := range []string{
		`rdma_port_up{device="sim1"} == 0 and rdma_port_expected_up == 1`, `rdma_collector_recorded_total > 10`,
		`rdma_port_gid_moves_total{device="sim0"} >= 2`, `rdma_port_flaps_total{device="sim0"} >= 3`,
		`increase(rdma_cq_probe_lost_completions_total{device="sim3"}[30s]) > 1`,
		`increase(rdma_cq_probe_errors_total{device="sim3"}[30s]) > 1`, `rdma_device_present{device="sim2"} == 0`,
		`time() - rdma:device_unwatched:since{device="sim2"} > 5`, `time() - rdma:command_stuck:since{device="sim1"} > 2`,
		`increase(infiniband_symbol_error[20s]) > 0`, `rdma_app_async_events_total{app="python3",event="qp_fatal"} > 10`,
		`rdma_tracer_attached == 1`, `rdma_fabric_port_dry_total > 10`, `rdma_problem_active{severity="critical"} == 1`,
	} {
		require.Eventually(t, func() bool { return len(queryPrometheus(t, address, enough, true)) > 0 }, 2*time.Minute, 200*time.Millisecond, enough)
	}
	return address
}

// queryPrometheus runs a query for now or for the last minute, and returns the series of its answer.
func queryPrometheus(t *testing.T, address, expr string, instant bool) []json.RawMessage {
	t.Helper()
	now := time.Now()
	at := func(at time.Time) string { return strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64) }
	path, values := "query_range", url.Values{"query": {expr}, "start": {at(now.Add(-time.Minute))}, "end": {at(now)}, "step": {"5"}}
	if instant {
		path, values = "query", url.Values{"query": {expr}, "time": {at(now)}}
	}
	response, err := http.PostForm("http://"+address+"/api/v1/"+path, values)
	require.NoError(t, err)
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct {
			Result []json.RawMessage
		}
	}
	require.NoError(t, json.NewDecoder(response.Body).Decode(&answer))
	require.Equal(t, "success", answer.Status, "%s: %s", expr, answer.Error)
	return answer.Data.Result
}

// fillVariables replaces the variables of a dashboard and of Grafana in a query. Variables without a value here, such as the site, are All.
func fillVariables(d *grafana.Dashboard, expr, device string) string {
	pairs := []string{
		"$__rate_interval_ms", "20000", "$__interval_ms", "20000", "$__rate_interval", "20s", "$__interval", "20s", "$__range", "60s",
		"[3h] offset 1h", "[20s] offset 5s", `"$host"`, `"h1"`, `"$device"`, strconv.Quote(device),
	}
	for _, v := range d.Templating.List {
		pairs = append(pairs, `"$`+v.Name+`"`, strconv.Quote(v.AllValue))
	}
	return strings.NewReplacer(pairs...).Replace(expr)
}

func TestEveryPanelHasSomethingToShow(t *testing.T) {
	t.Parallel()
	address := startFilled(t)
	for _, name := range ofOptions(t) {
		require.NotEmpty(t, queryPrometheus(t, address, name, true), name)
	}
	for file, device := range map[string]string{"overview": "", "host": "", "device": "sim0", "applications": "sim0", "fabric": ""} {
		text, err := os.ReadFile(filepath.Join("dashboards", file+".json"))
		require.NoError(t, err)
		d, err := grafana.ParseDashboard(text)
		require.NoError(t, err)
		require.True(t, strings.HasSuffix(d.UID, "-prometheus"))
		queries := 0
		for _, p := range d.All() {
			if p.Type != "row" && p.Type != "alertlist" {
				require.NotEmpty(t, p.Targets, p.Title)
				require.NotContains(t, p.Description, "Red means** nothing", p.Title)
			}
			for _, target := range p.Targets {
				queries++
				expr := fillVariables(d, target.Expr, device)
				require.NotContains(t, expr, "$", p.Title)
				require.NotEmpty(t, queryPrometheus(t, address, expr, target.Instant), "%s, %s: %s", file, p.Title, expr)
			}
		}
		for _, a := range d.Annotations.List {
			require.NotEmpty(t, queryPrometheus(t, address, fillVariables(d, a.Expr, device), false), "%s: %s", a.Name, a.Expr)
		}
		requireChoices(t, address, d, device)
		t.Logf("%s: %d queries in %d panels have an answer", file, queries, len(d.Panels))
	}
}

// requireChoices requires that each variable that offers labels finds some.
func requireChoices(t *testing.T, address string, d *grafana.Dashboard, device string) {
	t.Helper()
	for _, v := range d.Templating.List {
		inside, ok := strings.CutPrefix(v.Query, "label_values(")
		if !ok || v.Name == "rack" || v.Name == "rail" { // the host has only a site
			continue
		}
		i := strings.LastIndex(inside, ", ")
		series, label := inside[:i], strings.TrimSuffix(inside[i+2:], ")")
		require.Equal(t, v.Name, label)
		expr := fmt.Sprintf("count by (%s) (%s)", label, fillVariables(d, series, device))
		found := queryPrometheus(t, address, expr, true)
		require.NotEmpty(t, found, expr)
		require.Contains(t, string(found[0]), `"`+label+`":`, expr)
	}
}

// A rule's annotations name a panel of the dashboards for Prometheus.
func TestTheRulesNameTheirPanels(t *testing.T) {
	panels := map[string]bool{}
	for _, file := range []string{"overview", "host", "device", "applications", "fabric"} {
		text, err := os.ReadFile(filepath.Join("dashboards", file+".json"))
		require.NoError(t, err)
		d, err := grafana.ParseDashboard(text)
		require.NoError(t, err)
		for _, p := range d.All() {
			panels[fmt.Sprint(d.UID, " ", p.ID)] = p.Type != "row"
		}
	}
	rules := ruleAnnotations(t)
	require.NotEmpty(t, rules)
	for alert, a := range rules {
		require.True(t, panels[a["dashboard"]+" "+a["panel"]], "%s: %v", alert, a)
	}
}
