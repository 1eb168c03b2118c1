// Package hardware runs a device for at most two minutes and writes down what it
// does: probes by each method, commands timed and counted, events, counters. It
// is what a user with hardware sends in (`rdma-events doctor -hardware`,
// docs/compatibility.md has what the file holds). It opens the device by means of
// the worker program alone and changes nothing on the host.
package hardware
