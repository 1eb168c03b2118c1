// Package twins holds the files for InfluxDB and those for Prometheus against each
// other. One simulated hour of 30 hosts, with a fault for each rule that both have,
// goes into a real InfluxDB and into a real Prometheus. Then each pair of panels is
// to name the same hosts and devices with the same counts, and latencies within a
// tenth, and each rule is to fire and to clear in both within two evaluations.
//
// Real are the servers, Telegraf with its processor (see package scrapes), the
// queries and rules of assets, promtool, which makes the blocks and evaluates the
// rules, and the evaluation of recording rules. Not real are the clock, Grafana
// (package tests/grafana does its part) and the scrapes: every 15 seconds, of all
// hosts at the same moment. promtool makes blocks without marks of staleness, so
// that what a panel shows of a moment is asked five minutes or more after a series
// has ended, and what it shows over time is asked of a Prometheus that looks back
// for two scrapes only. The unit test of the rules has the marks.
//
// What differs and why is in the table differences. An entry that no longer applies
// is a failure.
package twins
