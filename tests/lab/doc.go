// Package lab runs programs on a real kernel with real RDMA drivers, on any Linux machine: it boots
// Debian's own kernel in qemu's software emulation, with this machine's file system (read-only, under an
// overlay that is thrown away) as the guest's root, and runs one program there as root.
//
// [Prepare] fetches and builds what a guest needs into a cache directory; nothing is installed on the host.
// [Image.Run] boots a guest for one program and brings back its output and exit status, [Image.Shell] one
// for a person. Everything that the host's root shows is in the guest at the same path, except what the
// guest has of its own: /proc, /sys, /dev, /run and /tmp.
package lab
