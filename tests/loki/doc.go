// Package loki runs a Loki for tests. Its test sends it what Telegraf writes with the shipped loki.conf, and asks it every log
// query of the dashboards.
package loki
