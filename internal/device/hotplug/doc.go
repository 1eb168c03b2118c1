// Package hotplug finds RDMA devices and notices their removal.
//
// A Watcher, for the host, reports the full set of devices whenever it changes.
// WatchRemoval, for the process that holds a device open, returns as soon as
// the kernel begins to remove it. Simulated is the Watcher of a simulated host.
//
// Kernel uevents and inotify only trigger a scan of sysfs, which is also scanned at
// regular intervals. In the exclusive mode of network namespaces a scan also finds
// devices of other network namespaces. The package opens no device and
// needs no privilege. Run blocks until its context ends; WatchRemoval blocks until then
// or until the removal. All goroutines that they start have ended when they return.
package hotplug
