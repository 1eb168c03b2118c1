// Package pairs keeps the picture that a host has of the network between it and the others: which pairs of ports there ought to
// be, how they meet, and what became of their probes. It gives orders to the workers, talks with the other hosts, takes what the
// workers see from their goroutines, and makes verdicts and measurements of it.
package pairs
