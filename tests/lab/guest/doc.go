// Package guest has what tests need that run inside a lab guest: RDMA devices made on the spot, events
// injected by the kernel, links that flap. All of it is behind the build tag guest; the package lab boots
// the guest and runs the tests, go test -tags lab ./tests/lab is how to start them.
package guest
