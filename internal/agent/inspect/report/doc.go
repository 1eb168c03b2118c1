// Package report makes one archive of what is known of a host's RDMA devices, for a ticket with a
// vendor: what was recorded, a snapshot of now, versions, the kernel's lines. It consists of parts,
// each with a limit of its own, and MANIFEST.txt says of each what it is, or why it is missing.
// One part that fails or hangs loses no other.
//
// What may hang in the kernel is not called here: the caller has processes do it, which can be
// killed or left behind.
package report
