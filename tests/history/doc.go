// Package history makes the line protocol that hosts would have written over a
// span of time, in a small part of that time: the simulator's devices, the
// monitor with its port states and aggregates, and the plugin's table of
// metrics and merging queue, on a clock that jumps from one event to the next.
//
// What is not the plugin's own here is the life of workers (keeper, session):
// the real ones are processes with goroutines of their own. They are played in
// one goroutine, lane by lane, so that equal seeds give equal lines.
package history
