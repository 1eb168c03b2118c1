// Package bench compares the plugin with C programs that do the same job and with
// other monitors, on this machine and in a lab guest, and writes
// docs/explanation/performance.md. It asserts nothing. make bench runs it.
//
// A Figure is one line of the result. Its values are measured in turns: each turn
// measures the plugin and the other program one after the other, because the speed
// of a machine drifts. The ratio is computed within each turn.
package bench
