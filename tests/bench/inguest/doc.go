// Package inguest is the half of the benchmarks that needs real RDMA devices:
// tests with the build tag guest, which the package bench runs in a lab guest.
// They assert nothing but that there is something to measure, and leave a
// report in the file that BENCH_REPORT names.
package inguest
