package sysfs

import "path/filepath"

// PCIFunction is what sysfs knows of a PCI function, whether or not there is an
// RDMA device on it.
type PCIFunction struct {
	Driver string // that is bound to it, as in "vfio-pci"; "" none
	// Master is the network device that the function's own belongs to, mostly a bond;
	// "" none. Devices of other network namespaces are not seen.
	Master string
}

// PCIFunction returns what is known of the function at an address, as in
// "0000:3b:00.1". It asks no driver.
func (s FS) PCIFunction(address string) PCIFunction {
	dir := filepath.Join(s.root, "bus/pci/devices", address)
	f := PCIFunction{Driver: linkBase(dir, "driver")}
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

// PCIFunctionOf returns the address of the PCI function that a device is on, and the
// function's driver; "" for a soft device, which older kernels hang below the network
// card's function. It asks no driver.
func (s FS) PCIFunctionOf(name string) (address, driver string) {
	dir := s.device(name)
	address, driver = pciAddress(linkBase(dir, "device")), linkBase(dir, "device/driver")
	if address == "" || driver != driverOf(dir) {
		return "", ""
	}
	return address, driver
}
