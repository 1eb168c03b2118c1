// Package hotplug finds RDMA devices and notices when they go.
//
// A Watcher, for the host, reports the full set of devices whenever it changes;
// WatchRemoval, for the process that holds a device open, returns as soon as
// the kernel begins to remove it. Simulated is the Watcher of a simulated world.
//
// Kernel uevents and inotify only say when to look; sysfs says what is there,
// and is looked at now and then in any case. Nothing here opens a device or
// needs a privilege. Run and WatchRemoval block until their context ends; what
// they start has ended when they return.
package hotplug
