// Package expect decides whether a port should be up, and how fast its link should be, by what the configuration says, what this
// host remembers, and how long the link waits. It is pure.
package expect
