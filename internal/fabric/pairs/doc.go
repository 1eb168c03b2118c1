// Package pairs manages the pairs of ports that probe each other: which pairs this host should have, how they are connected, and what happens
// to their probes. It sends orders to the workers, talks to the other hosts, receives facts from the workers, and derives verdicts and
// measurements from them.
package pairs
