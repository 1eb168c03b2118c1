// Package grafana does what Grafana does with this project's dashboards and
// alert rules, so that both can be tried where no Grafana is: it puts variables,
// range and interval into queries, and evaluates rules from the query over
// reductions, math and thresholds to pending and firing. What it knows of
// Grafana it knows from its source, of versions 11 to 13; each function says
// which part it stands for.
package grafana
