package sysfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"rdma_events/internal/device/verbs"
)

// Function describes the PCI function or scalable function of a device: all fields of Found but Index, Node, NodeGUID and Added. The
// error comes from listing network devices. Function asks no driver.
func (s FS) Function(name string) (verbs.Found, error) {
	dir := s.deviceDir(name)
	f := functionAt(dir, driverOf(dir))
	f.Name = name
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

// functionAt describes the PCI function or scalable function of a device. dir is the device's directory in the class infiniband or
// infiniband_verbs. The result has VirtualFunction, Scalable, Parent, PCI, Driver and Soft, and no other field of Found.
func functionAt(dir, driver string) verbs.Found {
	f := verbs.Found{
		VirtualFunction: pathExists(dir, "device/physfn"), Parent: pciAddress(linkBase(dir, "device/physfn")), Soft: isSoft(dir, driver),
	}
	switch {
	case isScalable(driver):
		f.VirtualFunction, f.Scalable, f.Parent = true, true, scalableParent(dir)
	case driver == linkBase(dir, "device/driver"): // a soft device is below the network card's function on older kernels
		if f.PCI = pciAddress(linkBase(dir, "device")); f.PCI != "" {
			f.Driver = driver
		}
	}
	return f
}

// isSoft reports whether a device is a soft device: it has a soft driver, or it has no parent device, so that the kernel places it
// below devices/virtual. Older kernels place a soft device below the network card's device.
func isSoft(dir, driver string) bool {
	if driver == driverRxe || driver == driverSiw {
		return true
	}
	target, err := os.Readlink(dir)
	return err == nil && strings.Contains(target, "/devices/virtual/") && !pathExists(dir, "device")
}

// CardOf returns the PCI address and the driver of a device. For a scalable function it returns the address of the parent function.
// Both results are "" for a soft device. CardOf asks no driver.
func (s FS) CardOf(name string) (address, driver string) {
	dir := s.deviceDir(name)
	if driver := driverOf(dir); isScalable(driver) {
		return scalableParent(dir), driver
	}
	return s.PCIFunctionOf(name)
}

// isScalable reports whether a driver drives scalable functions. Such a driver is on the auxiliary bus, and is named MODULE.sf.
func isScalable(driver string) bool { return strings.HasSuffix(driver, ".sf") }

// scalableParent returns the address of the PCI function of a scalable function: the parent of the device on the auxiliary bus.
func scalableParent(dir string) string {
	below, err := filepath.EvalSymlinks(filepath.Join(dir, "device"))
	if err != nil {
		return ""
	}
	return pciAddress(filepath.Base(filepath.Dir(below)))
}

// PCIFunction returns the state of the PCI function at an address, as in "0000:3b:00.1". It asks no driver.
func (s FS) PCIFunction(address string) verbs.PCIFunction {
	bus := filepath.Join(s.root, "bus/pci/devices")
	dir := filepath.Join(bus, address)
	f := verbs.PCIFunction{Driver: linkBase(dir, "driver")}
	var at unix.Stat_t
	switch err := unix.Stat(dir, &at); {
	case err == nil:
		f.Instance = at.Ino // the kernel makes a new directory, with another inode, each time it finds the function
	case errors.Is(err, unix.ENOENT):
		f.Absent = pathExists(bus)
	}
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
// driver. Both are "" for a scalable function, and for a soft device, which older kernels place below the
// network card's function. It asks no driver.
func (s FS) PCIFunctionOf(name string) (address, driver string) {
	dir := s.deviceDir(name)
	f := functionAt(dir, driverOf(dir))
	return f.PCI, f.Driver
}
