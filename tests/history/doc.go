// Package history makes the line protocol that hosts would have written over a
// span of time, in a small part of that time. It uses the simulator's devices, the
// monitor with its port states and aggregates, and the plugin's table of metrics
// and merging queue, on a clock that jumps from one event to the next.
//
// Only the loops of the workers and the tracer and of their supervision (openDevice,
// keeper, tracing) are not the plugin's own code: real ones are processes with several
// goroutines. The package simulates them in one goroutine, lane by lane, so that equal
// seeds give equal lines. What the loops decide, as when to restart and how to probe, is
// the plugin's. A Fabric is written and not simulated.
package history
