// Package influxdb holds what an InfluxDB that keeps the plugin's metrics for
// long is told; docs/scaling.md explains it.
package influxdb
