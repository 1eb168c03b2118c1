// Package aggregate condenses latencies and counters into the values that are emitted
// once per interval: mean and maximum, percentiles over a sliding window, cumulative
// histograms, and rates. It is pure: times are passed in as values, no function locks,
// and adding a sample does not allocate once every slice of a window has been used.
package aggregate
