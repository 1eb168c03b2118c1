// Package tracetest checks that all sources of package trace behave the same. Run is the contract suite: the names of its
// cases state the behavior of every source, and a Fixture provides a host with a device, processes that use it, and the means to
// provoke what the suite checks. It assumes no simulated time: a process may be a real one.
package tracetest
