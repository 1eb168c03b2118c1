// Package live shows what happens on RDMA devices as it happens: lines for a
// terminal or JSON objects for a program. A monitor gives it points and
// never waits for it: what cannot be written in time is kept, and beyond a bound
// dropped and counted.
package live
