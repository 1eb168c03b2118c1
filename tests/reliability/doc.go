// Package reliability writes docs/reliability.md: the faults that the plugin is
// put through, from a table here, and the figures of the last run, from the log
// of make test-full. A test prints a figure by rig.Reliability.
package reliability
