// Package applications implements a trace.Source for the applications of a scenario. It counts the steps of the simulated world, just as a
// source on a kernel counts the calls of its hooks. It starts to count when it is opened.
package applications
