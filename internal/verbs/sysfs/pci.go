package sysfs

import (
	"fmt"
	"path/filepath"
	"strings"

	"rdma_events/internal/verbs"
)

// Function describes the PCI function of a device, or the scalable function that it is: the fields of Found but Index, Node, NodeGUID
// and Added. The error is that of listing network devices. Function asks no driver.
func (s FS) Function(name string) (verbs.Found, error) {
	f := verbs.Found{Name: name, VirtualFunction: s.VirtualFunction(name), Scalable: s.isScalable(name)}
	f.PCI, f.Driver = s.PCIFunctionOf(name)
	f.Parent = pciAddress(linkBase(s.device(name), "device/physfn"))
	if f.Scalable {
		f.Parent = s.scalableParent(name)
	}
	if f.Parent == "" {
		return f, nil
	}
	netDevs, err := listDir(filepath.Join(s.root, "bus/pci/devices", f.Parent, "net"))
	if err != nil {
		return f, fmt.Errorf("list network devices of %s: %w", f.Parent, err)
	}
	f.ParentNetDev = len(netDevs) > 0
	return f, nil
}

// CardOf returns the address of the PCI function of a device, or of the one that a scalable function is on, and the driver of the
// device. Both are "" for a soft device. It asks no driver.
func (s FS) CardOf(name string) (address, driver string) {
	if s.isScalable(name) {
		return s.scalableParent(name), driverOf(s.device(name))
	}
	return s.PCIFunctionOf(name)
}

// isScalable reports whether the device is a scalable function. Its driver is on the auxiliary bus, and is named MODULE.sf.
func (s FS) isScalable(name string) bool {
	return strings.HasSuffix(driverOf(s.device(name)), ".sf")
}

// scalableParent returns the address of the PCI function that a scalable function is on, "" for another device. It is the parent
// of the device on the auxiliary bus.
func (s FS) scalableParent(name string) string {
	if !s.isScalable(name) {
		return ""
	}
	below, err := filepath.EvalSymlinks(filepath.Join(s.device(name), "device"))
	if err != nil {
		return ""
	}
	return pciAddress(filepath.Base(filepath.Dir(below)))
}

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
// driver. It returns "" for a scalable function, and for a soft device, which older kernels place below the network
// card's function. It asks no driver.
func (s FS) PCIFunctionOf(name string) (address, driver string) {
	dir := s.device(name)
	address, driver = pciAddress(linkBase(dir, "device")), linkBase(dir, "device/driver")
	if address == "" || driver != driverOf(dir) {
		return "", ""
	}
	return address, driver
}
