// Package lab runs programs on a real kernel with real RDMA drivers, on any Linux machine. It boots
// Debian's own kernel in qemu's software emulation and runs one program there as root. The guest's root is
// this machine's file system, read-only and under an overlay that is discarded at the end.
//
// [Prepare] fetches and builds what a guest needs into a cache directory. Nothing is installed on the host.
// [Image.Run] boots a guest for one program and returns its output and exit status. [Image.Shell] boots an
// interactive guest. All files of the host's root are in the guest at the same path, except in /proc, /sys,
// /dev, /run and /tmp: the guest has its own, but for the checkout.
//
// A guest boots in some 10 seconds, with one processor, so that two run at once; tests of completion vectors
// have two. Its RDMA devices are soft ones: rdma_rxe (RoCE) is in Debian's kernel, siw (iWARP) is built from its
// source. With [Image.WithPVRDMA] qemu is a paravirtual RDMA device, whose driver is built from its source too. A small
// module (evinject) has the kernel dispatch any event to any device or object. The processors
// are emulated, some ten times slower than real ones, and time drifts there: only measurements that ran side by
// side can be compared.
package lab
