// Package inguest is the half of the benchmarks that needs real RDMA devices:
// tests with the build tag guest, which the package bench runs in a lab guest.
// They assert only that there is something to measure, and write a report to the
// file that BENCH_REPORT names.
package inguest
