// Package prometheus has the Telegraf configuration with which a Prometheus scrapes the
// plugin's metrics. docs/coming-from.md explains it. In the tests Telegraf runs it.
package prometheus

//go:generate go run ./gen telegraf.conf
