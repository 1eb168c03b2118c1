// Package contained has the test of the container image, run in a lab guest by a
// container runtime as the DaemonSet in packaging/kubernetes says, on a real
// kernel's device. make try-image builds the image and runs it.
package contained
