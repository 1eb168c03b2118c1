package report

import (
	"path/filepath"
	"slices"

	"rdma_events/internal/device/drivers"
	"rdma_events/internal/device/sysfs"
)

// KernelNames returns the words by which lines of the kernel log identify devices: the devices, their network devices,
// PCI functions and drivers. sys is the mount point of sysfs. KernelNames sends no request to a driver. For a device
// that does not exist any more it returns only the name.
func KernelNames(sys string, devices []string) []string {
	fs := sysfs.New(sys)
	var names []string
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, device := range devices {
		add(device)
		address, driver := fs.CardOf(device)
		add(address)
		add(driver)
		add(drivers.Companion(driver))
		// Globs fail only for a bad pattern; a device has no * in its name.
		nets, _ := filepath.Glob(filepath.Join(sys, "class/infiniband", device, "device/net/*"))
		for _, net := range nets {
			add(filepath.Base(net))
		}
		for _, port := range fs.Ports(device) {
			add(fs.PortNetDev(device, port))
		}
	}
	return names
}
