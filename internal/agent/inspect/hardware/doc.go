// Package hardware tries a device for at most two minutes and records the results: rounds of each probe method, the
// duration and number of commands, events and counters. Users with hardware send in the resulting file (`rdma-events
// doctor -hardware`; docs/reference/compatibility.md describes its content). Only the worker program opens the device.
// The package changes nothing on the host.
package hardware
