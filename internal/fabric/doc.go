// Package fabric has what probes between hosts have in common and what follows from their answers: the list of hosts, who
// pings whom, and verdicts about pairs. It is pure: it opens no device, no connection and no file, and knows no clock.
package fabric
