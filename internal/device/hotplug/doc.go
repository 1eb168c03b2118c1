// Package hotplug finds RDMA devices and notices their removal.
//
// A Watcher, for the host, reports the full set of devices whenever it changes.
// WatchRemoval, for the process that holds a device open, returns as soon as
// the kernel begins to remove it. Simulated is the Watcher of a simulated host.
//
// Kernel uevents and inotify only trigger a scan. The devices are those in sysfs,
// which is also scanned at regular intervals. In exclusive mode those are found too that
// belong to another network namespace. The package opens no device and
// needs no privilege. Run blocks until its context ends, WatchRemoval also until
// the removal. All goroutines that they start have ended when they return.
package hotplug
