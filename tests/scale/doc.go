// Package scale fills an InfluxDB and a Prometheus as a large installation would. It measures the
// size of the data and how long the Overview dashboard and the alert rules wait for
// answers. The results are for docs/how-to/large-clusters.md. Tests fill only a small database:
// a large one takes many minutes.
package scale
