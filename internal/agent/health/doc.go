// Package health judges the RDMA devices of one host. A [Keeper] makes a [Status] from the points of each interval: the
// state of each device, port and probe, and the problems that the alert rules (package alerts) report. The Keeper
// remembers the past values that the rules need.
//
// Rules that compare several hosts or need days of history are not evaluated here, because one process knows neither.
package health
