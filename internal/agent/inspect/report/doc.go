// Package report creates one archive with everything known about a host's RDMA devices, for a vendor's support ticket:
// the recorded events, a snapshot of the current state, versions, and lines of the kernel log. An archive consists of
// parts, each with its own time limit. MANIFEST.txt describes each file, or why it is missing. A part that fails or
// hangs does not affect the others.
//
// This package makes no calls that may hang in the kernel. The caller makes them in separate processes, which can be
// killed or left behind.
package report
