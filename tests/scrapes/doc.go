// Package scrapes makes of the lines of a simulated host what a Prometheus would
// have scraped of it, in a small part of the time.
//
// Real are the program Telegraf, the file assets/prometheus/telegraf.conf with its
// processor, and the code with which Telegraf's output prometheus_client collects,
// ages and types metrics: plugins/serializers/prometheus, with the options of that
// file. Not real are the clock, which jumps, and the output's HTTP server. What
// Telegraf gathers is collected at once, where a real Telegraf waits for its next
// flush.
package scrapes
