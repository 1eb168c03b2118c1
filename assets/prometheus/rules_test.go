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

	"rdma_events/tests/alerts"
	"rdma_events/tests/prom"
	"rdma_events/tests/rig"
)

// runPromtool runs promtool and returns its output.
func runPromtool(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := exec.Command(rig.Program(t, "PROMTOOL_BIN", "tools/promtool"), args...).CombinedOutput()
	return string(out), err
}

func TestPrometheusTakesTheRules(t *testing.T) {
	out, err := runPromtool(t, "check", "rules", "rules.yml")
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

// growthUnits returns the cases of an alert about a counter that grows by n within minutes.
func growthUnits(alert, counter string, n, minutes int) []unit {
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

const ofProbe = `{host="h",device="d",port="1",vector="0",method="ud_send"}`

// rackPorts returns ports of a rack that are expected to be up: n with the given values, and others that are up.
func rackPorts(n int, values string, others int) map[string]string {
	all := map[string]string{}
	for i := range n + others {
		if i == n {
			values = "1x60"
		}
		of := fmt.Sprintf(`{site="s",rack="r",host="h%d",device="d",port="1"}`, i)
		all["rdma_port_up"+of], all["rdma_port_expected_up"+of] = values, "1x1600"
	}
	return all
}

// unusedPorts returns eight ports of a rack that are down and are not expected to be up.
func unusedPorts() map[string]string {
	all := rackPorts(8, "0x60", 0)
	for name := range all {
		if strings.HasPrefix(name, "rdma_port_expected_up") {
			all[name] = "0x60"
		}
	}
	return all
}

// cabledPorts returns eight ports of a rack that go down, and one that stays up. The given number of ports shares each cable. For some
// minutes, each port has a second series of its info, in which another label differs.
func cabledPorts(sharing int) map[string]string {
	all := rackPorts(8, "1x20 0x30", 1)
	for i := range 9 {
		of := fmt.Sprintf(`site="s",rack="r",host="h%d",device="d",port="1",cable="c%d"`, i, i/sharing)
		all[`rdma_port_info{`+of+`,netdev="eth0"}`] = "1x60"
		all[`rdma_port_info{`+of+`,netdev=""}`] = "_x20 1x3"
	}
	return all
}

// managerChanges returns eight InfiniBand ports of a site, and the changes of the subnet manager that n of them reported.
func managerChanges(n int, changes string) map[string]string {
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
		of := fmt.Sprintf(`{site="s",rack="r%d",host="h%d",device="d",port="1"}`, i%2, i)
		all["rdma_port_up"+of], all["rdma_port_expected_up"+of] = "1x20 0x30", "1x50"
	}
	return all
}

func alertUnits() []unit {
	p99 := "rdma_cq_probe_wake_p99_seconds" + ofProbe
	uptime := func(instance string) string {
		return fmt.Sprintf(`rdma_collector_uptime_seconds{host="h",plugin_instance=%q}`, instance)
	}
	return slices.Concat([]unit{

		{"eight of a rack", "RDMAPortsDownTogether", rackPorts(8, "1x20 0x30 1x20", 0), []int{23, 50}, []int{20, 53}},
		{"eight of eight cables", "RDMAPortsDownTogether", cabledPorts(1), []int{23, 40}, []int{20}},
		{"eight of four cables", "RDMAPortsDownTogether", cabledPorts(2), nil, []int{23, 40}},
		{"seven of a rack", "RDMAPortsDownTogether", rackPorts(7, "1x20 0x30", 0), nil, []int{23, 40}},
		{"eight of two racks", "RDMAPortsDownTogether", twoRacks(), nil, []int{23, 40}},
		{"a tenth of a rack", "RDMAPortsDownTogether", rackPorts(8, "1x20 0x30", 72), nil, []int{23, 40}},
		{"more than a tenth of a rack", "RDMAPortsDownTogether", rackPorts(8, "1x20 0x30", 71), []int{23, 40}, []int{20}},
		{"eight that are not used", "RDMAPortsDownTogether", unusedPorts(), nil, []int{23, 40}},
		{"eight for more than a day", "RDMAPortsDownTogether", rackPorts(8, "1x20 0x1580", 0), []int{1500}, []int{20}},

		{"all ports of a site", "RDMASMUnstable", managerChanges(8, "0x20 1 2 3x60"), []int{25, 45}, []int{20, 60}},
		{"half of the ports", "RDMASMUnstable", managerChanges(4, "0x20 1 2 3x60"), []int{25}, []int{20, 60}},
		{"three of eight ports", "RDMASMUnstable", managerChanges(3, "0x20 1 2 3x60"), nil, []int{25, 40}},
		{"two changes", "RDMASMUnstable", managerChanges(8, "0x20 1 2x60"), nil, []int{25, 40}},

		{"no host reports", "RDMANoReports", map[string]string{uptime(""): "0+60x30 _x60 0+60x30"}, []int{42, 80}, []int{30, 36, 95}},
		{"one of two hosts reports", "RDMANoReports", map[string]string{uptime("a"): "0+60x30 _x60", uptime("b"): "0+60x90"}, nil, []int{45, 80}},
		{"a restart of all", "RDMANoReports", map[string]string{uptime(""): "0+60x30 _x3 0+60x30"}, nil, []int{34, 36, 38}},
		{"nothing ever", "RDMANoReports", map[string]string{"up{}": "1x60"}, []int{10, 50}, []int{4}},

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
	},
		appUnits(),
		fabricUnits(),
	)
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
		growthUnits("RDMAAppErrors", errors("a", "qp_fatal"), 1, 30),
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

// writeUnits writes the tests of an alert, on its rules alone: promtool evaluates all rules of a file in each test, and no alert
// depends on another one.
func writeUnits(t *testing.T, alert string, all []unit) string {
	t.Helper()
	var tests []prom.UnitTest
	for i := range all {
		tests = append(tests, all[i].test())
	}
	return writeTestsOf(t, onlyAlert(t, alert), "1m", tests...)
}

// onlyAlert writes the rules of rules.yml that record, and those of one alert, and returns the path.
func onlyAlert(t *testing.T, alert string) string {
	t.Helper()
	text, err := os.ReadFile("rules.yml")
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Name     string           `yaml:"name"`
			Interval string           `yaml:"interval,omitempty"`
			Rules    []map[string]any `yaml:"rules"`
		} `yaml:"groups"`
	}
	require.NoError(t, yaml.Unmarshal(text, &file))
	found := 0
	for i := range file.Groups {
		g := &file.Groups[i]
		g.Rules = slices.DeleteFunc(g.Rules, func(rule map[string]any) bool {
			require.NotContains(t, rule["expr"], "ALERTS", "an alert would depend on another one")
			if rule["alert"] == alert {
				found++
			}
			return rule["alert"] != nil && rule["alert"] != alert
		})
	}
	require.Positive(t, found, alert)
	text, err = yaml.Marshal(file)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "rules.yml")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path
}

// writeTests writes tests of rules.yml. promtool evaluates all groups at this interval, whatever theirs is.
func writeTests(t *testing.T, interval string, tests ...prom.UnitTest) string {
	t.Helper()
	rules, err := filepath.Abs("rules.yml")
	require.NoError(t, err)
	return writeTestsOf(t, rules, interval, tests...)
}

// writeTestsOf is writeTests for the rules of a file.
func writeTestsOf(t *testing.T, rules, interval string, tests ...prom.UnitTest) string {
	t.Helper()
	text, err := yaml.Marshal(prom.UnitFile{RuleFiles: []string{rules}, Interval: interval, Tests: tests})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "units.yml")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path
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
	out, err := runPromtool(t, "test", "rules", writeTests(t, "5m", test))
	require.NoError(t, err, out)
}

func TestEachRuleFiresAndClearsAndStaysQuiet(t *testing.T) {
	cases := map[string]int{}
	for _, u := range alertUnits() {
		cases[u.alert]++
	}
	hosts := map[string]bool{} // what a host is judged by has its cases in tests/alerts
	for _, c := range alerts.Cases() {
		hosts[strings.ToLower("RDMA"+strings.ReplaceAll(c.Alert, "-", ""))] = true
	}
	for _, name := range alertNames(t) {
		if !hosts[strings.ToLower(name)] {
			require.GreaterOrEqual(t, cases[name], 4, name)
		}
		delete(cases, name)
	}
	require.Empty(t, cases, "cases of alerts that are not there")
	byAlert := map[string][]unit{}
	for _, u := range alertUnits() {
		byAlert[u.alert] = append(byAlert[u.alert], u)
	}
	for alert, cases := range byAlert {
		t.Run(alert, func(t *testing.T) {
			t.Parallel()
			out, err := runPromtool(t, "test", "rules", writeUnits(t, alert, cases))
			require.NoError(t, err, out)
		})
	}
}

func TestAPortForManagementThatIsDownIsAWarning(t *testing.T) {
	test := prom.UnitTest{Name: "roles", Interval: "1m"}
	for port, role := range map[string]string{"1": "management", "2": "storage", "3": ""} {
		of := fmt.Sprintf(`{host="h",device="d",port=%q,role=%q}`, port, role)
		test.Series = append(test.Series, prom.UnitSeries{Series: "rdma_port_up" + of, Values: "0x20"},
			prom.UnitSeries{Series: "rdma_port_expected_up" + of, Values: "1x20"})
	}
	for severity, n := range map[string]float64{"warning": 1, "critical": 2} {
		test.Exprs = append(test.Exprs, prom.UnitExpr{
			Expr: fmt.Sprintf(`count(ALERTS{alertname="RDMAPortDown", alertstate="firing", severity=%q})`, severity), At: "5m",
			Samples: []prom.UnitSample{{Labels: "{}", Value: n}},
		})
	}
	out, err := runPromtool(t, "test", "rules", writeTests(t, "1m", test))
	require.NoError(t, err, out)
}

func TestWhatBelongsToAPortForManagementIsAWarning(t *testing.T) {
	for alert, series := range map[string][2]string{
		"RDMALostCompletions": {`rdma_cq_probe_lost_completions_total{host="h",device="d",port="1",vector="0",method="ud_send"ROLE}`, "0x30 4x30"},
		"RDMACommandStuck":    {`rdma_command_stuck{host="h",device="d",port="1",call="query_port"ROLE}`, "1x60"},
		"RDMAFabricOwnLink":   {`rdma_fabric_port_bad{host="h",device="d",port="1",own_group="g"ROLE}`, "1x60"},
	} {
		for role, severity := range map[string]string{`,role="management"`: "warning", "": "critical"} {
			out, err := runPromtool(t, "test", "rules", writeTests(t, "1m", prom.UnitTest{
				Name: "roles", Interval: "1m",
				Series: []prom.UnitSeries{{Series: strings.Replace(series[0], "ROLE", role, 1), Values: series[1]}},
				Exprs: []prom.UnitExpr{{
					Expr: fmt.Sprintf(`count(ALERTS{alertname=%q, alertstate="firing", severity=%q})`, alert, severity), At: "35m",
					Samples: []prom.UnitSample{{Labels: "{}", Value: 1}},
				}},
			}))
			require.NoError(t, err, "%s: %s", alert, out)
		}
	}
}

// A unit that expects the opposite fails, so the check above can fail.
func TestAWrongExpectationIsFound(t *testing.T) {
	u := alertUnits()[0]
	u.fires, u.quiet = u.quiet, u.fires
	out, err := runPromtool(t, "test", "rules", writeUnits(t, u.alert, []unit{u}))
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

// ofOption matches the names that are there with the plugin's sections applications and fabric only.
var ofOption = regexp.MustCompile(`^rdma_(app_|tracer_|host_app_|fabric_)`)

// elsewhere matches the names that are there with hardware that is not simulated, or with a section expected.
var elsewhere = regexp.MustCompile(`^rdma_(collector_expected_|device_pcie_|port_(legs|fec_))`)

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
		if !ofOption.MatchString(name) && !elsewhere.MatchString(name) {
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
