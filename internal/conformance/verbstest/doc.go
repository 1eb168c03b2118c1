// Package verbstest checks that all backends of package verbs behave the same.
// Run is the contract suite: the names of its cases state the behavior of every
// backend, and a Fixture provides the means to provoke events on a device.
// Track finds devices and probes that a test leaves open.
package verbstest
