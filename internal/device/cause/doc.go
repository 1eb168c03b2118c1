// Package cause judges what was read about a port when something happened to it: which
// counters moved since the reading before, and what the cause is, where that is certain. It is
// pure: it reads nothing, and times come in as values.
package cause
