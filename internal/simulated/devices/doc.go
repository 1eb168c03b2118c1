// Package devices implements the simulated backend: hardware profiles, a timeline of
// events and faults, and a seed. A World is such a timeline that starts at an epoch in
// CLOCK_MONOTONIC. Every process that loads it with the same epoch sees the same events
// at the same times. New returns a verbs.Backend for a World. The backend behaves as
// package verbs documents.
//
// Each device has one hardware. It has the links, the position in the timeline and the
// queues of all handles that have the device open. Its position advances when a call
// queries it. The package has no goroutines: a call that waits sleeps on a timer until
// the next entry.
package devices
