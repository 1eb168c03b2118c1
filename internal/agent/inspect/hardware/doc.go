// Package hardware tries a device for at most two minutes and records the
// results: probes by each method, commands timed and counted, events, counters.
// Users with hardware send in the resulting file (`rdma-events doctor -hardware`;
// docs/reference/compatibility.md describes its content). Only the worker program opens the
// device. The package changes nothing on the host.
package hardware
