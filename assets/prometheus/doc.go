// Package prometheus has the Telegraf configuration with which a Prometheus scrapes the
// plugin's metrics. docs/how-to/prometheus.md explains it. In the tests Telegraf runs it.
package prometheus
