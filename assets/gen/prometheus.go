package main

import (
	"bytes"
	"cmp"
	"fmt"
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

const promHead = `# Alert rules for Prometheus, made by go generate ./assets/gen; do not edit.
# They are about the names of assets/prometheus/telegraf.conf. docs/alerts.md says what each means.
`

// promPast are the series that rules with a long memory read. To read a day of points of
// thousands of ports in each evaluation would take seconds.
func promPast() []promRule {
	return []promRule{
		{Record: "rdma:port_up:max5m", Expr: `max_over_time(rdma_port_up{expected!="down"}[5m])`},
		{Record: "rdma:cq_probe_wake_p99_seconds:mean5m", Expr: `avg_over_time(rdma_cq_probe_wake_p99_seconds[5m])`},
		{Record: "rdma:collector_uptime_seconds:max5m", Expr: `max_over_time(rdma_collector_uptime_seconds[5m])`},
	}
}

// promRules returns the file of rules for Prometheus, with the alerts of the same table as
// Grafana's.
func promRules() ([]byte, error) {
	alerts := promGroup{Name: "rdma_events"}
	for _, r := range rules() {
		alerts.Rules = append(alerts.Rules, r.prometheus())
	}
	var b bytes.Buffer
	b.WriteString(promHead)
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	err := enc.Encode(map[string][]promGroup{
		"groups": {{Name: "rdma_events_past", Interval: "5m", Rules: promPast()}, alerts},
	})
	if err == nil {
		err = enc.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("encode rules for Prometheus: %w", err)
	}
	return b.Bytes(), nil
}

func (r *rule) prometheus() promRule {
	// Prometheus owns the label instance.
	summary := strings.NewReplacer(".Labels.instance", "$labels.plugin_instance", ".Labels.", "$labels.").Replace(r.summary)
	p := promRule{
		Alert: alertName(r.id), Expr: r.promql,
		Labels: map[string]string{"severity": r.severity, "component": "rdma"},
		Annotations: map[string]string{
			"summary": summary, "description": r.fires, "do": r.do[0],
		},
	}
	if hold := cmp.Or(r.promHold, r.hold); hold > 0 {
		p.For = short(hold)
	}
	return p
}

// alertName returns the name of a rule in Prometheus: that of port-down is RDMAPortDown.
func alertName(id string) string {
	name := "RDMA"
	for word := range strings.SplitSeq(id, "-") {
		if word == "gid" {
			word = "GID"
		}
		name += strings.ToUpper(word[:1]) + word[1:]
	}
	return name
}
