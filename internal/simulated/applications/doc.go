// Package applications is the simulated source of package trace: what the applications of a scenario experience. It counts the steps
// that the simulated world takes, as a source on a kernel counts the calls of its hooks, and it begins to count when it is
// opened.
package applications
