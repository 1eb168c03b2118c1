// Package contained has the tests of the container image. A container runtime runs
// the image in a lab guest, as the DaemonSet in packaging/kubernetes specifies it,
// with the device of a real kernel. make try-image builds the image and runs the
// tests.
package contained
