package main

import (
	"fmt"
	"strings"
)

const documentHead = `<!-- Made by go generate ./assets/gen; do not edit. -->
# Alerts

The rules of [assets/alerts/rdma_events.yaml](../assets/alerts/rdma_events.yaml): what each means and what to do.
They are for Grafana's file provisioning and the data in an InfluxDB that speaks InfluxQL; [dashboards](dashboards.md) says with what
they were tested, and with what not.

` + "```sh" + `
sudo cp assets/datasources/rdma_events.yaml /etc/grafana/provisioning/datasources/   # edit its address and database
sudo cp assets/alerts/rdma_events.yaml /etc/grafana/provisioning/alerting/
` + "```" + `

The rules ask the data source with the UID ` + "`" + datasourceUID + "`" + `. If you have one already, put its UID in the place of that one.
Set ` + "`RDMA_EVENTS_DOCS`" + ` in Grafana's environment to where this directory can be read; the alerts' runbook links start with it.
The label ` + "`severity`" + ` is for your notification policies: ` + "`critical`" + ` is to wake the operator, ` + "`warning`" + ` can wait for the day.

Prometheus has the same rules in [assets/prometheus/rules.yml](../assets/prometheus/rules.yml), where port-down is RDMAPortDown.
They are about the names that [assets/prometheus/telegraf.conf](../assets/prometheus/telegraf.conf) makes
([coming from](coming-from.md)), and their annotation ` + "`do`" + ` is the first step of what to do.

When nothing is reported at all, only [plugin-silent](#plugin-silent) fires: the others' "no data" is normal, so that one
silence is one alert.

Counters begin anew with the plugin. Rules that ask how much one grew take the greater of its growths before and after a
restart, not their sum.

| rule | severity | holds for | fires |
|---|---|---|---|
`

func alertsDocument() []byte {
	var b strings.Builder
	b.WriteString(documentHead)
	for _, r := range rules() {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s | %s |\n", r.id, r.id, r.severity, short(r.hold), r.fires)
	}
	for _, r := range rules() {
		r.document(&b)
	}
	return []byte(b.String())
}

func (r *rule) document(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n\n**%s.** %s\n\n", r.id, r.title, r.fires)
	fmt.Fprintf(b, "- Stays quiet: %s\n- Clears: %s\n- Cannot see: %s\n\nWhat to do:\n\n", r.quiet, r.clears, r.blind)
	for i, line := range r.do {
		fmt.Fprintf(b, "%d. %s\n", i+1, line)
	}
}
