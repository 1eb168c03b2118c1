// Package stack runs the programs for a demonstration of the dashboards: InfluxDB,
// and Telegraf with the plugin on simulated hosts, all on loopback, with an hour
// of history.
package stack
