// Package tracetest checks that all sources of package trace behave the same. Run is the contract suite: the names of its
// cases state the behaviour of every source, and a Fixture has a host with a device, processes that use it, and the means to
// make happen to them what the suite looks for. It assumes no simulated time: a process may be a real one.
package tracetest
