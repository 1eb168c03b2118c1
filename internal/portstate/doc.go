// Package portstate turns the asynchronous events and the queries of one port
// into its state: transitions, flaps, time down, and what was missed. It is
// pure: times come in as CLOCK_MONOTONIC values, and equal inputs give equal
// results. The rules by which events and queries are reconciled stand at
// Machine.
package portstate
