// Package system holds the tests of the whole plugin: real Telegraf, the real
// programs and a real kernel's RDMA devices, in a lab guest. Its tests have the
// build tag guest; go test -tags lab ./tests/lab runs them.
package system
