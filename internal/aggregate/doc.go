// Package aggregate condenses latencies and counters into what is emitted once
// per interval: mean and maximum, percentiles over a sliding window, cumulative
// histograms, and rates. It is pure: times come in as values, nothing locks,
// and adding a sample does not allocate once a window has gone round.
package aggregate
