// Package influxdb holds the InfluxQL with which an InfluxDB 1.x keeps the
// plugin's metrics for long, and the names that it gives; docs/scaling.md
// explains it.
package influxdb
