// Package influx runs its own InfluxDB 1.8, on a loopback port and in a directory
// that the caller names, and uses it over HTTP: databases, line protocol,
// InfluxQL. Other hosts cannot reach it.
package influx
