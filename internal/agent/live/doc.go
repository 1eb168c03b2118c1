// Package live shows events and changes of RDMA devices as they happen: as lines on a terminal, or as JSON objects for
// a program. A monitor passes points to it and never waits for it. Records that cannot be written yet are queued. Above
// a limit they are dropped and counted.
package live
