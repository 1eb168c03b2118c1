package gen

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// promGroup is a group of rules in a file of Prometheus.
type promGroup struct {
	Name     string     `yaml:"name"`
	Interval string     `yaml:"interval,omitempty"`
	Rules    []promRule `yaml:"rules"`
}

// promRule is an alert, or with Record a series that is computed from others.
type promRule struct {
	Record      string            `yaml:"record,omitempty"`
	Alert       string            `yaml:"alert,omitempty"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels,omitempty"`
	Annotations map[string]string `yaml:"annotations,omitempty"`
}

const promHead = `# Alert rules for Prometheus, made by rdma-events assets; do not edit.
# They are about the names that telegraf.conf makes. docs/reference/alerts.md says what each means.
`

// reported is the recording rule of when each plugin last reported.
const reported = "rdma:collector_report_timestamp_seconds:max5m"

// promPast are the series that rules with a long memory read, and panels that would have to read very many. To read a day
// of points of thousands of ports in each evaluation would take seconds. A rule that reads what another one records comes
// after that.
func promPast(o *Options) []promRule {
	return []promRule{
		// Few ports flap, and few hosts have events, so that these are small.
		{Record: "rdma:port_flaps:increase5m", Expr: increase5m("rdma_port_flaps_total") + " > 0"},
		{Record: "rdma:async_events:increase5m", Expr: "sum without (device, port) (" + increase5m("rdma_async_events_total") + ") > 0"},
		{Record: "rdma:cq_probe_wake_p99_seconds:mean5m", Expr: `avg_over_time(rdma_cq_probe_wake_p99_seconds[5m])`},
		{Record: fabricPast, Expr: fabricNow(o.site(Prometheus))},
		{Record: reported, Expr: `max_over_time(timestamp(rdma_collector_uptime_seconds)[5m:])`},
	}
}

// increase5m returns the increase of a counter between two evaluations of the recording rules, as a whole number. The range begins one
// scrape earlier, so that no increase falls between two evaluations. increase() extrapolates from the five minutes between the first and
// the last scrape to all 5m15s, which is 1.05 times as long.
func increase5m(counter string) string { return "round(increase(" + counter + "[5m15s]) / 1.05)" }

// promGroups returns the rules for Prometheus, with the alerts of the same table as Grafana's.
func promGroups(o *Options) []promGroup {
	alerts := promGroup{Name: "rdma_events", Rules: []promRule{{
		// It begins with the first evaluation without the device open, and goes on with the time that it has until the device is
		// open again.
		Record: "rdma:device_unwatched:since",
		Expr:   `(rdma:device_unwatched:since or timestamp(rdma_device_open == 0)) and rdma_device_open == 0`,
	}, {
		Record: "rdma:command_stuck:since",
		Expr:   `(rdma:command_stuck:since or timestamp(rdma_command_stuck == 1)) and rdma_command_stuck == 1`,
	}}}
	for _, r := range o.rules() {
		alerts.Rules = append(alerts.Rules, r.prometheus(o))
	}
	return []promGroup{{Name: "rdma_events_past", Interval: "5m", Rules: promPast(o)}, alerts}
}

// promRules returns the file of rules for Prometheus.
func promRules(o *Options) ([]byte, error) {
	return asYAML(promHead, map[string][]promGroup{"groups": promGroups(o)})
}

// promObject returns the same rules for the Prometheus Operator.
func promObject(o *Options) ([]byte, error) {
	object := struct {
		APIVersion string                 `yaml:"apiVersion"`
		Kind       string                 `yaml:"kind"`
		Metadata   map[string]string      `yaml:"metadata"`
		Spec       map[string][]promGroup `yaml:"spec"`
	}{"monitoring.coreos.com/v1", "PrometheusRule", map[string]string{"name": "rdma-events"}, map[string][]promGroup{"groups": promGroups(o)}}
	return asYAML(promHead, object)
}

// asYAML returns a document with a comment at its head.
func asYAML(head string, v any) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(head)
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	err := enc.Encode(v)
	if err == nil {
		err = enc.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return b.Bytes(), nil
}

func (r *rule) prometheus(o *Options) promRule {
	// Prometheus owns the label instance.
	summary := strings.NewReplacer(".Labels.instance", "$labels.plugin_instance", ".Labels.", "$labels.").Replace(r.Summary)
	p := promRule{
		Alert: AlertName(r.ID), Expr: strings.Join(strings.Fields(r.promql), " "),
		Labels: map[string]string{"severity": r.severity("$labels"), "component": "rdma"}, Annotations: r.annotations(o, summary),
	}
	p.Annotations["dashboard"] = r.Panel.Dashboard + "-" + string(Prometheus)
	p.Annotations["panel"] = strconv.Itoa(r.Panel.ID)
	if hold := cmp.Or(r.promHold, r.Hold); hold > 0 {
		p.For = formatDuration(hold)
	}
	return p
}

// AlertName returns the name in Prometheus of the alert with an ID. For port-down it is RDMAPortDown.
func AlertName(id string) string {
	name := "RDMA"
	for word := range strings.SplitSeq(id, "-") {
		switch word {
		case "gid", "sm":
			word = strings.ToUpper(word)
		case "pcie":
			word = "PCIe"
		}
		name += strings.ToUpper(word[:1]) + word[1:]
	}
	return name
}
