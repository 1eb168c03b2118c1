// Package health says how the RDMA devices of one host are: each device, port and probe, and the problems of which the
// alert rules (package alerts) say that they are there. A [Keeper] makes a [Status] from the points of each interval, and
// remembers what the rules ask of the past.
//
// Rules that compare hosts, or that need days of history, are not here: a process knows neither.
package health
