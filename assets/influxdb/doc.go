// Package influxdb has the InfluxQL statements with which an InfluxDB 1.x keeps
// the plugin's metrics for a long time, and the names that they use.
// docs/how-to/large-clusters.md explains them.
package influxdb
