// Package preview draws images of the dashboards for readers who have no Grafana, with
// the answers of a real InfluxDB to the panels' own queries, and with the evaluation of
// the alert rules. Grafana's published components draw what they can, the page in
// assets/preview the rest.
package preview
