package prometheus_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"rdma_events/tests/prom"
	"rdma_events/tests/rig"
)

// promtool runs promtool and returns its output.
func promtool(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := exec.Command(rig.Program(t, "PROMTOOL_BIN", "tools/promtool"), args...).CombinedOutput()
	return string(out), err
}

func TestPrometheusTakesTheRules(t *testing.T) {
	out, err := promtool(t, "check", "rules", "rules.yml")
	require.NoError(t, err, out)
}

// unit is a test of one alert on series of one value a minute, in promtool's notation: 0x9 is
// ten times 0, and 0+1x9 counts from 0 to 9.
type unit struct {
	name   string
	alert  string
	series map[string]string
	fires  []int // at these minutes there is one such alert
	quiet  []int // at these there is none
}

// grows returns the cases of an alert about a counter that grew by n within minutes.
func grows(alert, counter string, n, minutes int) []unit {
	since := func(by int) map[string]string {
		return map[string]string{counter: fmt.Sprintf("0x40 %dx90", by)}
	}
	return []unit{
		{alert + ", enough", alert, since(n), []int{42}, []int{40, 43 + minutes}},
		{alert + ", enough over some minutes", alert, map[string]string{counter: fmt.Sprintf("0x39 0+1x%d %dx60", n, n)},
			[]int{41 + n}, []int{39}},
		{alert + ", one too few", alert, since(n - 1), nil, []int{41, 42, 45, 60}},
		{alert + ", a restart of the plugin", alert, map[string]string{counter: fmt.Sprintf("%dx40 0x40", n)}, nil, []int{41, 42, 50}},
	}
}

const (
	ofPort   = `{host="h",device="d",port="1"}`
	ofDevice = `{host="h",device="d"}`
	ofProbe  = `{host="h",device="d",port="1",vector="0",method="ud_send"}`
)

// places returns the ports of a rack: some with values, the others up.
func places(n int, values string, others int) map[string]string {
	all := map[string]string{}
	for i := range n + others {
		if i == n {
			values = "1x60"
		}
		all[fmt.Sprintf(`rdma_port_up{site="s",rack="r",host="h%d",device="d",port="1"}`, i)] = values
	}
	return all
}

// cabled returns eight ports of a rack that fall, of which so many share each cable. One that is up has a series of its info
// left over from before another of its labels changed.
func cabled(sharing int) map[string]string {
	all := places(8, "1x20 0x30", 1)
	for i := range 9 {
		of := fmt.Sprintf(`site="s",rack="r",host="h%d",device="d",port="1",cable="c%d"`, i, i/sharing)
		all[`rdma_port_info{`+of+`,netdev="eth0"}`] = "1x60"
		all[`rdma_port_info{`+of+`,netdev=""}`] = "_x20 1x3"
	}
	return all
}

// slower returns a port with its rate, its best rate since the plugin started, and its state.
func slower(rate, best, up string) map[string]string {
	return map[string]string{
		"rdma_port_rate_bytes_per_second" + ofPort: rate, "rdma_port_rate_best_bytes_per_second" + ofPort: best, "rdma_port_up" + ofPort: up,
	}
}

// managers returns eight InfiniBand ports of a site, and the changes of the subnet manager that n of them saw.
func managers(n int, changes string) map[string]string {
	all := map[string]string{}
	for i := range 8 {
		of := fmt.Sprintf(`site="s",host="h%d",device="d",port="1"`, i)
		all[`rdma_port_info{`+of+`,link_layer="infiniband"}`] = "1x90"
		all[`rdma_async_events_total{`+of+`,event="sm_change"}`] = "0x90"
		if i < n {
			all[`rdma_async_events_total{`+of+`,event="sm_change"}`] = changes
		}
	}
	return all
}

// twoRacks returns eight ports that fall, four in each rack.
func twoRacks() map[string]string {
	all := map[string]string{}
	for i := range 8 {
		all[fmt.Sprintf(`rdma_port_up{site="s",rack="r%d",host="h%d",device="d",port="1"}`, i%2, i)] = "1x20 0x30"
	}
	return all
}

func units() []unit {
	up := "rdma_port_up" + ofPort
	present := "rdma_device_present" + ofDevice
	status := func(state, reason string) string {
		return fmt.Sprintf(`rdma_device_status{host="h",device="d",worker_state=%q,reason=%q}`, state, reason)
	}
	p99 := "rdma_cq_probe_wake_p99_seconds" + ofProbe
	uptime := func(instance string) string {
		return fmt.Sprintf(`rdma_collector_uptime_seconds{host="h",plugin_instance=%q}`, instance)
	}
	return slices.Concat([]unit{
		{"down", "RDMAPortDown", map[string]string{up: "1x20 0x30 1x20"}, []int{23, 50}, []int{20, 21, 53}},
		{"down for a day", "RDMAPortDown", map[string]string{up: "1x20 0x1600"}, []int{1400}, []int{1470}},
		{"down by design", "RDMAPortDown", map[string]string{`rdma_port_up{host="h",device="d",port="1",expected="down"}`: "1x20 0x30"},
			nil, []int{23, 40}},
		{"never up", "RDMAPortDown", map[string]string{up: "0x60"}, nil, []int{10, 30, 60}},
		{"down for less than a minute", "RDMAPortDown", map[string]string{up: "1x20 0 1x20"}, nil, []int{21, 22, 23}},

		{"eight of a rack", "RDMAPortsDownTogether", places(8, "1x20 0x30 1x20", 0), []int{23, 50}, []int{20, 53}},
		{"eight of eight cables", "RDMAPortsDownTogether", cabled(1), []int{23, 40}, []int{20}},
		{"eight of four cables", "RDMAPortsDownTogether", cabled(2), nil, []int{23, 40}},
		{"seven of a rack", "RDMAPortsDownTogether", places(7, "1x20 0x30", 0), nil, []int{23, 40}},
		{"eight of two racks", "RDMAPortsDownTogether", twoRacks(), nil, []int{23, 40}},
		{"a tenth of a rack", "RDMAPortsDownTogether", places(8, "1x20 0x30", 72), nil, []int{23, 40}},
		{"more than a tenth of a rack", "RDMAPortsDownTogether", places(8, "1x20 0x30", 71), []int{23, 40}, []int{20}},
		{"eight that were never up", "RDMAPortsDownTogether", places(8, "0x60", 0), nil, []int{23, 40}},

		{"came back slower", "RDMALinkSlow", slower("12.5e9x20 3.1e9x60", "12.5e9x80", "1x80"), []int{28, 70}, []int{20, 25}},
		{"slower, over a restart", "RDMALinkSlow", slower("12.5e9x20 3.1e9x60", "12.5e9x20 3.1e9x60", "1x80"), []int{28, 70}, []int{20, 25}},
		{"slower for three minutes", "RDMALinkSlow", slower("12.5e9x20 3.1e9x2 12.5e9x60", "12.5e9x80", "1x80"), nil, []int{22, 26, 30}},
		{"always slow", "RDMALinkSlow", slower("3.1e9x80", "3.1e9x80", "1x80"), nil, []int{28, 70}},
		{"slower, and down", "RDMALinkSlow", slower("12.5e9x20 3.1e9x60", "12.5e9x80", "1x20 0x60"), nil, []int{28, 70}},

		{"all ports of a site", "RDMASMUnstable", managers(8, "0x20 1 2 3x60"), []int{25, 45}, []int{20, 60}},
		{"half of the ports", "RDMASMUnstable", managers(4, "0x20 1 2 3x60"), []int{25}, []int{20, 60}},
		{"three of eight ports", "RDMASMUnstable", managers(3, "0x20 1 2 3x60"), nil, []int{25, 40}},
		{"two changes", "RDMASMUnstable", managers(8, "0x20 1 2x60"), nil, []int{25, 40}},

		{"no host reports", "RDMANoReports", map[string]string{uptime(""): "0+60x30 _x60 0+60x30"}, []int{42, 80}, []int{30, 36, 95}},
		{"one of two hosts reports", "RDMANoReports", map[string]string{uptime("a"): "0+60x30 _x60", uptime("b"): "0+60x90"}, nil, []int{45, 80}},
		{"a restart of all", "RDMANoReports", map[string]string{uptime(""): "0+60x30 _x3 0+60x30"}, nil, []int{34, 36, 38}},
		{"nothing ever", "RDMANoReports", map[string]string{"up{}": "1x60"}, []int{10, 50}, []int{4}},

		{"missing", "RDMADeviceMissing", map[string]string{present: "1x20 0x30 1x20"}, []int{23, 50}, []int{20, 21, 53}},
		{"renamed", "RDMADeviceMissing", map[string]string{present: "1x20 0x30", status("stopped", "renamed"): "0x20 1x30"},
			nil, []int{23, 40}},
		{"given to vfio", "RDMADeviceMissing", map[string]string{present: "1x20 0x30", status("stopped", "reassigned"): "0x20 1x30"},
			nil, []int{23, 40}},
		{"borrowed by a pod", "RDMADeviceMissing", map[string]string{present: "1x50", status("stopped", "other_netns"): "0x20 1x30"},
			nil, []int{23, 40}},
		{"another device was renamed", "RDMADeviceMissing", map[string]string{
			present: "1x20 0x30", `rdma_device_status{host="h",device="e",worker_state="stopped",reason="renamed"}`: "1x50",
		}, []int{23}, []int{20}},
		{"reset within a minute", "RDMADeviceMissing", map[string]string{present: "1x20 0 1x20"}, nil, []int{21, 22, 23}},

		{"held by a worker that died", "RDMAUnackedEvents", map[string]string{"rdma_async_released_total" + ofPort: "0x20 1x60"},
			[]int{25}, []int{20, 22, 55}},
		{"unacknowledged for long", "RDMAUnackedEvents", map[string]string{"rdma_async_unacked" + ofPort: "0x20 1x20 0x20"},
			[]int{28}, []int{23, 43}},
		{"unacknowledged for a minute", "RDMAUnackedEvents", map[string]string{"rdma_async_unacked" + ofPort: "0x20 1x1 0x20"},
			nil, []int{21, 22, 25, 28}},
		{"all acknowledged", "RDMAUnackedEvents", map[string]string{
			"rdma_async_unacked" + ofPort: "0x60", "rdma_async_released_total" + ofPort: "4x60",
		}, nil, []int{10, 30}},

		{"slow", "RDMAWakeSlow", map[string]string{p99: "0.0001x300 0.002x60 0.0001x60"}, []int{330}, []int{300, 305, 370}},
		{"slow from the start", "RDMAWakeSlow", map[string]string{p99: "0.002x400"}, nil, []int{100, 330, 400}},
		{"five times little", "RDMAWakeSlow", map[string]string{p99: "0.00001x300 0.0001x100"}, nil, []int{330, 400}},
		{"slow for five minutes", "RDMAWakeSlow", map[string]string{p99: "0.0001x300 0.002x4 0.0001x60"}, nil, []int{306, 312, 320}},
		{"slow by a method without a past", "RDMAWakeSlow", map[string]string{
			p99: "0.0001x300", `rdma_cq_probe_wake_p99_seconds{host="h",device="d",port="1",vector="0",method="flush"}`: "_x300 0.002x60",
		}, nil, []int{330, 350}},

		{"silent", "RDMAPluginSilent", map[string]string{uptime(""): "0+60x30 _x60 0+60x30"}, []int{50, 90}, []int{30, 38, 95}},
		{"one of two instances is silent", "RDMAPluginSilent", map[string]string{uptime("a"): "0+60x120", uptime("b"): "0+60x30 _x90"},
			[]int{60}, []int{30}},
		{"taken away a day ago", "RDMAPluginSilent", map[string]string{uptime(""): "0+60x30 _x1600"}, []int{1400}, []int{1500}},
		{"a restart of the plugin", "RDMAPluginSilent", map[string]string{uptime(""): "0+60x30 _x2 0+60x30"}, nil, []int{33, 36, 45}},

		{"refused", "RDMAWorkerDown", map[string]string{status("running", "ok"): "1x20 0x60", status("backing_off", "no_permission"): "0x20 1x30 0x20"},
			[]int{24, 50}, []int{20, 22, 53}},
		{"the reason changes", "RDMAWorkerDown", map[string]string{
			status("backing_off", "crashed"): "1x21 0x60", status("backing_off", "no_library"): "0x21 1x60",
		}, []int{21, 22, 23, 24}, nil},
		{"crashed and running again", "RDMAWorkerDown", map[string]string{
			status("running", "ok"): "1x20 0 1x40", status("backing_off", "crashed"): "0x20 1 0x40",
		}, nil, []int{21, 22, 23}},
		{"stopped, as the device is missing", "RDMAWorkerDown", map[string]string{status("stopped", "removed"): "1x60"}, nil, []int{10, 30}},
	},
		commandUnits(),
		appUnits(),
		fabricUnits(),
		recorderUnits(),
		grows("RDMAPortFlapping", "rdma_port_flaps_total"+ofPort, 3, 30),
		grows("RDMALinkDisagrees", "rdma_port_missed_transitions_total"+ofPort, 1, 30),
		grows("RDMAGIDMoved", "rdma_port_gid_moves_total"+ofPort, 1, 30),
		grows("RDMADeviceFatal", "rdma_device_fatals_total"+ofDevice, 1, 30),
		grows("RDMAProbeErrors", "rdma_cq_probe_errors_total"+ofProbe, 3, 15),
		grows("RDMAPluginLate", `rdma_collector_skipped_intervals_total{host="h"}`, 3, 30),
		grows("RDMALostEvents", "rdma_cq_probe_lost_events_total"+ofProbe, 3, 15),
		grows("RDMALostCompletions", "rdma_cq_probe_lost_completions_total"+ofProbe, 3, 15),
		grows("RDMAWorkerRestarts", "rdma_device_crashes_total"+ofDevice, 3, 30),
	)
}

// recorderUnits are the cases of the alert about two counters of the recorder.
func recorderUnits() []unit {
	errors, lost := `rdma_collector_record_errors_total{host="h"}`, `rdma_collector_record_lost_total{host="h"}`
	return slices.Concat(
		grows("RDMARecorderFailing", errors, 1, 30),
		grows("RDMARecorderFailing", lost, 1, 30),
		[]unit{
			{"a full disk, and what it costs", "RDMARecorderFailing", map[string]string{errors: "0x20 1 2 3x60", lost: "0x20 0 0 400x60"},
				[]int{22, 45}, []int{20, 56}},
			{"lost after the errors were over", "RDMARecorderFailing", map[string]string{errors: "0x20 1x90", lost: "0x45 9x90"},
				[]int{30, 50, 55, 70}, []int{20, 80}},
			{"failures of long ago", "RDMARecorderFailing", map[string]string{errors: "7x90", lost: "400x90"}, nil, []int{10, 40, 60}},
			{"records without a failure", "RDMARecorderFailing", map[string]string{
				`rdma_collector_recorded_total{host="h"}`: "0+100x90", errors: "0x90", lost: "0x90",
			}, nil, []int{10, 40, 60}},
			{"nothing is recorded", "RDMARecorderFailing", map[string]string{`rdma_collector_uptime_seconds{host="h"}`: "0+60x90"}, nil, []int{10, 40, 60}},
		},
	)
}

// commandUnits are the cases of the alerts about calls that the firmware has to answer. The series has another call that is
// well.
func commandUnits() []unit {
	of := func(call string) string { return fmt.Sprintf(`{host="h",device="d",port="1",call=%q}`, call) }
	series := func(stuck, took string) map[string]string {
		return map[string]string{
			"rdma_command_stuck" + of("hw_counters"): stuck, "rdma_command_took_p99_seconds" + of("hw_counters"): took,
			"rdma_command_stuck" + of("query_port"): "0x90", "rdma_command_took_p99_seconds" + of("query_port"): "45e-6x90",
		}
	}
	return []unit{
		{"stuck", "RDMACommandStuck", series("0x20 1x30 0x20", "45e-6x90"), []int{22, 50}, []int{20, 21, 53}},
		{"stuck before any call has ended", "RDMACommandStuck", series("1x60", "_x60"), []int{2, 40}, nil},
		{"stuck for less than half a minute", "RDMACommandStuck", series("0x20 1 0x20", "45e-6x90"), nil, []int{21, 22, 23}},
		{"stuck until the device is gone", "RDMACommandStuck", series("0x20 1x10 _x30", "45e-6x90"), []int{25}, []int{20, 38}},
		{"answered late", "RDMACommandStuck", series("0x90", "45e-6x20 2x60"), nil, []int{23, 40, 60}},

		{"slow", "RDMACommandSlow", series("0x90", "45e-6x20 2x30 45e-6x30"), []int{32, 50}, []int{20, 25, 30, 53}},
		{"slow for eight minutes", "RDMACommandSlow", series("0x90", "45e-6x20 2x7 45e-6x30"), nil, []int{25, 29, 31, 35}},
		{"a second and no more", "RDMACommandSlow", series("0x90", "45e-6x20 1x60"), nil, []int{32, 50}},
		{"slow, and stuck", "RDMACommandSlow", series("0x20 1x60", "45e-6x20 60x60"), nil, []int{32, 50}},
		{"slow, and then stuck", "RDMACommandSlow", series("0x40 1x40", "45e-6x20 60x60"), []int{35}, []int{43, 60}},
	}
}

// appUnits are the cases of the alerts about applications.
func appUnits() []unit {
	errors := func(app, event string) string {
		return fmt.Sprintf(`rdma_app_async_events_total{host="h",device="d",app=%q,event=%q}`, app, event)
	}
	const (
		ofHost   = `rdma_host_app_errors_total{host="h"}`
		unread   = `rdma_app_async_unread_errors{host="h",device="d",app="a"}`
		threads  = `rdma_app_hang_threads{host="h",device="d",app="a",object="qp"}`
		attached = `rdma_tracer_attached{host="h"}`
	)
	return slices.Concat(
		grows("RDMAAppErrors", errors("a", "qp_fatal"), 1, 30),
		[]unit{
			{"the first event is an error", "RDMAAppErrors", map[string]string{errors("a", "qp_fatal"): "_x20 1x90", ofHost: "0x20 1x90"},
				[]int{22, 48}, []int{20, 53}},
			{"the first event of a unit is an error", "RDMAAppErrors", map[string]string{
				errors("a", "qp_fatal"): "0x90", `rdma_app_async_events_total{host="h",device="d",app="a",unit="job_2",event="cq_err"}`: "_x20 2x90",
				ofHost: "0x20 2x90",
			}, []int{22, 48}, []int{20, 53}},
			{"two types at once are one alert", "RDMAAppErrors", map[string]string{
				errors("a", "qp_fatal"): "0x20 1x90", errors("a", "cq_err"): "0x20 1x90", ofHost: "0x20 2x90",
			}, []int{22}, []int{20, 53}},
			{"an error of long ago, seen again after a gap", "RDMAAppErrors", map[string]string{
				errors("a", "qp_fatal"): "3x20 _x40 3x60", ofHost: "3x20 _x40 3x60",
			}, nil, []int{10, 30, 63, 70, 90}},
			{"an error on another host is not this one's", "RDMAAppErrors", map[string]string{
				errors("a", "qp_fatal"): "_x20 3x60", ofHost: "3x90", `rdma_host_app_errors_total{host="other"}`: "0x20 1x60",
			}, nil, []int{22, 30}},
			{"errors that the plugin's own worker reads", "RDMAAppErrors", map[string]string{
				errors("rdma-ev-worker", "device_fatal"): "_x20 1x90", ofHost: "0x20 1x90",
			}, nil, []int{22, 40}},
			{"events that are no errors", "RDMAAppErrors", map[string]string{
				errors("a", "comm_est"): "_x5 0+40x90", errors("a", "qp_last_wqe_reached"): "_x20 4x90", ofHost: "0x90",
			}, nil, []int{10, 22, 60}},
			{"a host without the option", "RDMAAppErrors", map[string]string{`rdma_host_ports_down{host="h"}`: "0x90"}, nil, []int{10, 60}},

			{"unread for two minutes", "RDMAAppErrorsUnread", map[string]string{unread: "0x20 2x20 0x20"}, []int{24, 40}, []int{20, 22, 43}},
			{"read within two minutes", "RDMAAppErrorsUnread", map[string]string{unread: "0x20 2 0x40"}, nil, []int{21, 22, 23, 24}},
			{"the process ends", "RDMAAppErrorsUnread", map[string]string{unread: "0x20 2x20 _x30"}, []int{24, 40}, []int{50}},
			{"unread, and no errors", "RDMAAppErrorsUnread", map[string]string{
				unread: "0x90", `rdma_app_async_unread{host="h",device="d",app="a"}`: "40x90",
			}, nil, []int{10, 60}},

			{"hangs", "RDMAAppDestroyHangs", map[string]string{threads: "_x20 1x20 0x20"}, []int{22, 40}, []int{19, 43}},
			{"the plugin ends while it hangs", "RDMAAppDestroyHangs", map[string]string{threads: "_x20 1x20 _x30"}, []int{22, 40}, []int{19, 50}},
			{"it is over", "RDMAAppDestroyHangs", map[string]string{threads: "0x60"}, nil, []int{10, 30}},
			{"no hang", "RDMAAppDestroyHangs", map[string]string{`rdma_host_app_hangs{host="h"}`: "0x60"}, nil, []int{10, 30}},

			{"blind", "RDMATracerBlind", map[string]string{attached: "1x20 0x40 1x20"}, []int{33, 60}, []int{20, 25, 30, 64}},
			{"blind for eight minutes", "RDMATracerBlind", map[string]string{attached: "1x20 0x8 1x20"}, nil, []int{25, 29, 31, 35}},
			{"never attached", "RDMATracerBlind", map[string]string{attached: "0x90"}, nil, []int{15, 60}},
			{"blind for a day", "RDMATracerBlind", map[string]string{attached: "1x20 0x1600"}, []int{1400}, []int{1470}},
			{"taken out of the configuration", "RDMATracerBlind", map[string]string{attached: "1x20 _x60"}, nil, []int{25, 40}},
		},
	)
}

func (u *unit) test() prom.UnitTest {
	x := prom.UnitTest{Name: u.name, Interval: "1m"}
	for series, values := range u.series {
		x.Series = append(x.Series, prom.UnitSeries{Series: series, Values: values})
	}
	firing := fmt.Sprintf(`count(ALERTS{alertname=%q, alertstate="firing"})`, u.alert)
	for _, minute := range u.fires {
		x.Exprs = append(x.Exprs, prom.UnitExpr{Expr: firing, At: fmt.Sprintf("%dm", minute), Samples: []prom.UnitSample{{Labels: "{}", Value: 1}}})
	}
	for _, minute := range u.quiet {
		x.Exprs = append(x.Exprs, prom.UnitExpr{Expr: firing, At: fmt.Sprintf("%dm", minute)})
	}
	return x
}

func writeUnits(t *testing.T, all []unit) string {
	t.Helper()
	var tests []prom.UnitTest
	for i := range all {
		tests = append(tests, all[i].test())
	}
	return writeTests(t, "1m", tests...)
}

// writeTests writes tests of rules.yml. promtool evaluates all groups at this interval, whatever theirs is.
func writeTests(t *testing.T, interval string, tests ...prom.UnitTest) string {
	t.Helper()
	rules, err := filepath.Abs("rules.yml")
	require.NoError(t, err)
	text, err := yaml.Marshal(prom.UnitFile{RuleFiles: []string{rules}, Interval: interval, Tests: tests})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "units.yml")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path
}

// The plugin restarts while the link is slow. Prometheus knows the best rate of seven days, and not that of eight.
func TestALinkIsSlowerThanItWasWithinSevenDays(t *testing.T) {
	u := unit{
		alert: "RDMALinkSlow", series: slower("12.5e9x20 3.1e9x2100", "3.1e9x2120", "1x2120"),
		fires: []int{23 * 5, 2000 * 5}, quiet: []int{20 * 5, 2045 * 5},
	}
	test := u.test()
	test.Interval = "5m"
	out, err := promtool(t, "test", "rules", writeTests(t, "5m", test))
	require.NoError(t, err, out)
}

// The scrapes are 15 s apart, and no event comes in the scrape that two evaluations share.
func TestPanelsOfAFleetReadWhatIsRecorded(t *testing.T) {
	events := func(port int, values string) prom.UnitSeries {
		return prom.UnitSeries{
			Series: fmt.Sprintf(`rdma_async_events_total{host="h",rack="r",device="d",port="%d",event="port_err"}`, port),
			Values: values,
		}
	}
	expr := func(query, labels string, value float64) prom.UnitExpr {
		return prom.UnitExpr{Expr: query, At: "1h", Samples: []prom.UnitSample{{Labels: labels, Value: value}}}
	}
	test := prom.UnitTest{
		Name: "recorded", Interval: "15s",
		Series: []prom.UnitSeries{
			events(1, "0x30 3x209"), events(2, "5x50 9x189"), events(3, "7x30 1x209"), // the plugin of the third has been restarted
			{Series: `rdma_collector_uptime_seconds{host="h"}`, Values: "0+15x40 stale"},
		},
		Exprs: []prom.UnitExpr{
			expr("sum_over_time(rdma:async_events:increase5m[1h])", `{event="port_err",host="h",rack="r"}`, 3+4+1),
			expr("max_over_time(rdma:collector_report_timestamp_seconds:max5m[1d])", `{host="h"}`, 40*15),
		},
	}
	out, err := promtool(t, "test", "rules", writeTests(t, "5m", test))
	require.NoError(t, err, out)
}

func TestEachRuleFiresAndClearsAndStaysQuiet(t *testing.T) {
	cases := map[string]int{}
	for _, u := range units() {
		cases[u.alert]++
	}
	for _, name := range alertNames(t) {
		require.GreaterOrEqual(t, cases[name], 4, name)
		delete(cases, name)
	}
	require.Empty(t, cases, "cases of alerts that are not there")
	out, err := promtool(t, "test", "rules", writeUnits(t, units()))
	require.NoError(t, err, out)
}

// A unit that expects the opposite fails, so the check above can fail.
func TestAWrongExpectationIsFound(t *testing.T) {
	u := units()[0]
	u.fires, u.quiet = u.quiet, u.fires
	out, err := promtool(t, "test", "rules", writeUnits(t, []unit{u}))
	require.Error(t, err, out)
}

func alertNames(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile("rules.yml")
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(text), -1) {
		names = append(names, m[1])
	}
	require.NotEmpty(t, names)
	return names
}

// namesInRules returns the names of the plugin's series in the rules.
func namesInRules(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("rules.yml")
	require.NoError(t, err)
	var names []string
	for line := range strings.Lines(string(text)) {
		if expr, ok := strings.CutPrefix(strings.TrimSpace(line), "expr: "); ok {
			names = append(names, regexp.MustCompile(`\brdma_\w+`).FindAllString(expr, -1)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ofOption matches the names that are there with the plugin's section applications only.
var ofOption = regexp.MustCompile(`^rdma_(app_|tracer_|host_app_|fabric_)`)

// ofOptions returns the names in the rules that are not there by default.
func ofOptions(t *testing.T) []string {
	t.Helper()
	names := slices.DeleteFunc(namesInRules(t), func(name string) bool { return !ofOption.MatchString(name) })
	require.NotEmpty(t, names)
	return names
}

// requireNames requires that all names in the rules are those of a scrape, or of an option.
func (s *scraped) requireNames() {
	s.t.Helper()
	for _, name := range namesInRules(s.t) {
		if !ofOption.MatchString(name) {
			require.Contains(s.t, s.families, name)
		}
	}
}

// ruleAnnotations returns the annotations of each alert.
func ruleAnnotations(t *testing.T) map[string]map[string]string {
	t.Helper()
	text, err := os.ReadFile("rules.yml")
	require.NoError(t, err)
	var f struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Annotations map[string]string
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &f))
	all := map[string]map[string]string{}
	for _, g := range f.Groups {
		for _, r := range g.Rules {
			if r.Alert != "" {
				all[r.Alert] = r.Annotations
			}
		}
	}
	return all
}
