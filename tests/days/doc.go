// Package days tests how the plugin judges a host over a simulated day: what administrators and schedulers do on an ordinary
// day must not raise a critical problem, and each fault has to be reported until it is mended. The monitor, the memory and
// the evaluation of alerts are the plugin's own code; discovery, workers and clocks are simulated.
package days
