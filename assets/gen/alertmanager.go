package gen

import "strings"

// alertmanager is the configuration of an Alertmanager, as far as this project needs it.
type alertmanager struct {
	Route     amRoute      `yaml:"route"`
	Receivers []amReceiver `yaml:"receivers"`
	Inhibit   []amInhibit  `yaml:"inhibit_rules"`
}

type amRoute struct {
	Receiver       string   `yaml:"receiver"`
	GroupBy        []string `yaml:"group_by,flow"`
	GroupWait      string   `yaml:"group_wait"`
	GroupInterval  string   `yaml:"group_interval"`
	RepeatInterval string   `yaml:"repeat_interval"`
}

type amReceiver struct {
	Name string `yaml:"name"`
}

// amInhibit holds back alerts of the targets while one of the sources fires with equal labels.
type amInhibit struct {
	Sources []string `yaml:"source_matchers,flow"`
	Targets []string `yaml:"target_matchers,flow"`
	Equal   []string `yaml:"equal,flow"`
}

const alertmanagerHead = `# Alertmanager for the alerts of rules.yml, made by rdma-events assets.
# The receiver sends nothing yet: give it your webhook, mail or pager, or merge route and inhibit_rules into your own file.
# Alerts are grouped by place. Without such labels the whole fleet is one group.
`

// alertmanagerFile returns a configuration with which one fault is one notification.
func alertmanagerFile(o *Options) ([]byte, error) {
	ofDevice := []string{"host", "device", "plugin_instance"}
	return asYAML(alertmanagerHead, alertmanager{
		Route: amRoute{
			Receiver: "rdma", GroupBy: append([]string{"alertname"}, o.grouped()...),
			GroupWait: "30s", GroupInterval: "5m", RepeatInterval: "12h",
		},
		Receivers: []amReceiver{{Name: "rdma"}},
		Inhibit: []amInhibit{
			{
				Sources: []string{"alertname = " + AlertName("ports-down-together")},
				Targets: []string{"alertname = " + AlertName("port-down")},
				Equal:   append([]string{}, o.Labels...),
			},
			{
				Sources: []string{"alertname = " + AlertName("device-missing")},
				Targets: []string{`alertname =~ "` + ofMissingDevice() + `"`},
				Equal:   ofDevice,
			},
			{
				Sources: []string{"alertname = " + AlertName("no-reports")},
				Targets: []string{"alertname = " + AlertName("plugin-silent")},
				Equal:   []string{},
			},
		},
	})
}

// ofMissingDevice returns a regular expression for the alerts that say nothing new about a device that is missing.
func ofMissingDevice() string {
	var names []string
	for _, id := range []string{"port-down", "worker-down", "worker-restarts", "lost-events", "lost-completions", "probe-errors", "wake-slow", "app-errors"} {
		names = append(names, AlertName(id))
	}
	return strings.Join(names, "|")
}

const prometheusFile = `# An example for Prometheus, made by rdma-events assets: enter the hosts of telegraf.conf and your Alertmanager.
global:
  scrape_interval: 15s
  evaluation_interval: 15s
rule_files: [rules.yml]
alerting:
  alertmanagers:
    - static_configs: [{targets: ["127.0.0.1:9093"]}]
scrape_configs:
  - job_name: rdma
    static_configs: [{targets: ["127.0.0.1:9273"]}]
`
