// Package portstate derives the state of one port from its asynchronous events and its
// queries: transitions, flaps, time down, and missed transitions. It is pure: the caller
// passes times as CLOCK_MONOTONIC values, and equal inputs give equal results. The comment
// of Machine has the rules by which it reconciles events and queries.
package portstate
