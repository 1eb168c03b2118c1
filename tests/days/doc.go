// Package days tests how a host is judged over a simulated day, by health and by the rules of InfluxDB and Prometheus: what
// administrators and schedulers do on an ordinary day must not raise a critical problem, and each fault has to be reported until it is
// mended. The monitor, the memory and the evaluation of alerts are the plugin's own code; discovery, workers and clocks are simulated,
// and what a host reports of applications and of other hosts is written.
package days
