// Package preview draws images of the dashboards for readers who have no Grafana:
// the panels that Grafana's published components can draw, with the answers of a
// real InfluxDB to the panels' own queries. The page itself is in assets/preview.
package preview
