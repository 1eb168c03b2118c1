package sysfs

import (
	"path/filepath"

	"rdma_events/internal/verbs"
)

// PCIFunction returns the driver and the master of the PCI function at an address, as
// in "0000:3b:00.1". It asks no driver.
func (s FS) PCIFunction(address string) verbs.PCIFunction {
	dir := filepath.Join(s.root, "bus/pci/devices", address)
	f := verbs.PCIFunction{Driver: linkBase(dir, "driver")}
	names, err := listDir(filepath.Join(dir, "net"))
	if err != nil {
		return f
	}
	for _, name := range names {
		if f.Master == "" {
			f.Master = linkBase(dir, "net", name, "master")
		}
	}
	return f
}

// PCIFunctionOf returns the address of the PCI function of a device, and the function's
// driver. It returns "" for a soft device, which older kernels place below the network
// card's function. It asks no driver.
func (s FS) PCIFunctionOf(name string) (address, driver string) {
	dir := s.device(name)
	address, driver = pciAddress(linkBase(dir, "device")), linkBase(dir, "device/driver")
	if address == "" || driver != driverOf(dir) {
		return "", ""
	}
	return address, driver
}
