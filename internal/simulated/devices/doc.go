// Package devices is the simulated backend: hardware profiles, a timeline of events
// and faults, and a seed. A World is that timeline, counted from an epoch in
// CLOCK_MONOTONIC, so every process that loads it with the same epoch sees the
// same events at the same moments. New makes a verbs.Backend of a World; it
// behaves as package verbs documents.
//
// Each device has one hardware. It holds the links, the position in the
// timeline and the queues of all handles that have the device open; it advances
// when a call queries it. There are no goroutines: a call that waits sleeps on
// a timer until the next entry.
package devices
