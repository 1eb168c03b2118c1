// Package influx runs an InfluxDB 1.8 of its own, on a loopback port and in a
// directory that the caller names, and speaks to it over HTTP: databases, line
// protocol, InfluxQL. Nothing of it is reachable from another host.
package influx
