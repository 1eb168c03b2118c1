// Package live shows events and changes of RDMA devices as they happen: as lines for a
// terminal or as JSON objects for a program. A monitor passes points to it and never
// waits for it. Records that cannot be written in time are kept, and above a limit
// dropped and counted.
package live
