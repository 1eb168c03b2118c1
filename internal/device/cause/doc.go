// Package cause determines the cause of an occurrence on a port from the facts that were read
// about it, where the cause is certain, and which counters moved since the last reading. It is
// pure: it reads nothing, and callers pass times as values.
package cause
