// Package preview makes pictures of the dashboards for who has no Grafana at
// hand: the panels that Grafana's published components can draw, with the
// answers of a real InfluxDB to the panels' own queries. The page itself is in
// assets/preview.
package preview
