// Package prom runs its own Prometheus, on a loopback port and in a directory that
// the caller names, fills it with blocks that promtool makes, and asks it over HTTP.
package prom
