// Package verdict evaluates the probes between hosts. It decides whether an echo is missing, in which direction probes were lost, and which
// verdict applies to a pair of ports or to a port. One table explains every verdict and reason. The package is pure: it opens no device, no
// connection and no file, and reads no clock.
package verdict
