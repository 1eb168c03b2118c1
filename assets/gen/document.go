package gen

import (
	"fmt"
	"strings"
	"time"
)

const documentHead = `<!-- Made by go generate ./assets/gen; do not edit. -->
# Alerts

The rules of [assets/alerts/rdma_events.yaml](../../assets/alerts/rdma_events.yaml): what each means and what to do.
They are for Grafana's file provisioning and the data in an InfluxDB that speaks InfluxQL; [dashboards](dashboards.md) says with what
they were tested, and with what not.

` + "```sh" + `
sudo cp assets/datasources/rdma_events.yaml /etc/grafana/provisioning/datasources/   # edit its address and database
sudo cp assets/alerts/rdma_events.yaml /etc/grafana/provisioning/alerting/
sudo systemctl restart grafana-server
` + "```" + `

The rules ask the data source with the UID ` + "`rdma-influxdb`" + `. ` + "`rdma-events assets -out my-site`" + ` writes them for your site: with the
UID of another data source (` + "`-datasource`" + `), with the labels that say where a host is (` + "`-labels site,rack,rail`" + `), for an
agent whose interval is longer (` + "`-interval 5m`" + `), and with links to this page (` + "`-docs`" + ` and the address of a copy of this directory).
Without ` + "`-docs`" + ` the alerts have no link; their annotation ` + "`do`" + ` is the first step, and
` + "`rdma-events explain port-down`" + ` prints the rest.
The label ` + "`severity`" + ` is for your notification policies: ` + "`critical`" + ` is to wake the operator, ` + "`warning`" + ` can wait for the day.

Prometheus has the same rules in [assets/prometheus/rules.yml](../../assets/prometheus/rules.yml), where port-down is RDMAPortDown.
They are about the names that [assets/prometheus/telegraf.conf](../../assets/prometheus/telegraf.conf) makes
([more](../how-to/prometheus.md)).

When nothing is reported at all, only [plugin-silent](#plugin-silent) fires: the others' "no data" is normal, so that one
silence is one alert. In Prometheus that one is [no-reports](#no-reports), for which Alertmanager holds back the others.

Counters begin anew with the plugin. Rules that ask how much one grew take the greater of its growths before and after a
restart, not their sum; in Prometheus it is the sum.

| rule | severity | holds for | fires |
|---|---|---|---|
`

// AlertsDocument returns the text of docs/reference/alerts.md.
func AlertsDocument() []byte {
	o := Defaults()
	var b strings.Builder
	b.WriteString(documentHead)
	for _, r := range o.rules() {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s | %s |\n", r.ID, r.ID, r.Severity, formatDuration(max(r.Hold, r.holdAlone())), r.Fires)
	}
	for _, r := range o.rules() {
		fmt.Fprintf(&b, "\n## %s\n\n", r.ID)
		r.document(&b)
	}
	return []byte(b.String())
}

// holdAlone returns how long a rule that only Prometheus has holds.
func (r *rule) holdAlone() time.Duration {
	if len(r.steps) > 0 {
		return 0
	}
	return r.promHold
}

// document writes what a rule is about, in Markdown without its heading.
func (r *rule) document(b *strings.Builder) {
	fmt.Fprintf(b, "**%s.** %s\n\n", r.Title, r.Fires)
	if len(r.steps) == 0 {
		b.WriteString("Only Prometheus has it.\n\n")
	}
	fmt.Fprintf(b, "- Stays quiet: %s\n- Clears: %s\n- Cannot see: %s\n\nWhat to do:\n\n", r.Quiet, r.Clears, r.Blind)
	for i, line := range r.FirstSteps {
		fmt.Fprintf(b, "%d. %s\n", i+1, line)
	}
}

// Explain returns the chapter of an alert rule, as text. ok is false if there is none of that id.
func Explain(id string) (text string, ok bool) {
	o := Defaults()
	for _, r := range o.rules() {
		if r.ID == id || AlertName(r.ID) == id {
			var b strings.Builder
			fmt.Fprintf(&b, "%s\n\n", r.ID)
			r.document(&b)
			return strings.NewReplacer("**", "", "`", "").Replace(b.String()), true // a terminal shows no Markdown
		}
	}
	return "", false
}

// RuleIDs returns the ids of all alert rules, in the order of docs/reference/alerts.md.
func RuleIDs() []string {
	o := Defaults()
	var ids []string
	for _, r := range o.rules() {
		ids = append(ids, r.ID)
	}
	return ids
}
