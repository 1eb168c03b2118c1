// Package portstate derives the state of one port from its asynchronous events and its
// queries: transitions, flaps, time down, and missed transitions. It is pure: times are
// passed in as CLOCK_MONOTONIC values, and equal inputs give equal results. The comment
// of Machine has the rules by which events and queries are reconciled.
package portstate
