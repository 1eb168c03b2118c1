// Package pvrdma has the tests of the plugin on the driver vmw_pvrdma: a driver of a PCI function, with interrupts,
// commands, and a provider that maps the rings of its device. QEMU has a model of the device, whose other side is a library
// of the lab. The tests have the build tag guest. make test-full PART=pvrdma runs them.
package pvrdma
