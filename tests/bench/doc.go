// Package bench measures the plugin side by side with C programs that do the
// same job and with its neighbours, on this machine and in a lab guest, and
// writes docs/benchmarks.md. It asserts nothing: make bench runs it.
//
// A Figure is one line of the result. Its values are taken in turns, ours and
// the other's one after the other, because a machine's speed drifts; the ratio
// is taken within each turn.
package bench
