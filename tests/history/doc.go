// Package history makes the line protocol that hosts would have written over a
// span of time, in a small part of that time. It uses the simulator's devices, the
// monitor with its port states and aggregates, and the plugin's table of metrics
// and merging queue, on a clock that jumps from one event to the next.
//
// Only the workers and their supervision (keeper, openDevice) are not the plugin's
// own code: real workers are processes with several goroutines. The package
// simulates them in one goroutine, lane by lane, so that equal seeds give equal
// lines.
package history
