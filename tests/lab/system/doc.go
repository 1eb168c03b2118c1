// Package system has the tests of the whole plugin. They use real Telegraf, the
// real programs and a real kernel's RDMA devices in a lab guest. The tests have the
// build tag guest. go test -tags lab ./tests/lab runs them.
package system
