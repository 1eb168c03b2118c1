// Package stack runs what one needs to see the dashboards move: InfluxDB, and
// Telegraf with the plugin on simulated hosts, all on loopback, with an hour of
// history.
package stack
