// Package sim is the simulated backend: hardware profiles, a timeline of
// events and faults, and a seed. A World is that timeline, counted from an
// epoch in CLOCK_MONOTONIC, so every process that loads it with the same epoch
// sees the same thing happen at the same moment; New makes a verbs.Backend of
// it that behaves as internal/verbs documents.
//
// One hardware per device holds links, the timeline's position and the queues
// of whoever has the device open; it advances when somebody looks at it. There
// are no goroutines: who waits sleeps on a timer to the next entry.
package sim
