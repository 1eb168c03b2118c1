// Package aggregate condenses latencies and counters into the values that are emitted
// once per interval: mean and maximum, percentiles over a sliding window, cumulative
// histograms, and rates. It is pure: callers pass in times as values, and no function
// locks. Adding a sample does not allocate once every slice of a window has been used.
package aggregate
