// Package guest has helpers for tests that run inside a lab guest. They make RDMA devices, have the kernel
// inject events and flap links. All of them have the build tag guest. The package lab boots the guest and runs
// the tests: go test -tags lab ./tests/lab.
package guest
