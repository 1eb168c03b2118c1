package sysfs

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"rdma_events/internal/device/verbs"
)

// emulators lists the PCI vendors of emulated ports: Red Hat (QEMU, virtio) and VMware. A function that is passed through to a virtual
// machine has the link of the hardware, about which an emulated port above it shows nothing.
var emulators = []string{"0x1b36", "0x1af4", "0x15ad"}

// PCILink returns the link of the PCI function at an address: its state from the function, and the speed and width that both ends support
// from the function and the port above it. It returns the zero PCILink for a virtual function, whose registers are empty, and in a virtual
// machine, which does not see the real port. It reads the function's registers, and asks no driver.
func (s FS) PCILink(address string) verbs.PCILink {
	if address == "" || s.isEmulated("0000:00:00.0") {
		return verbs.PCILink{}
	}
	dir, err := filepath.EvalSymlinks(filepath.Join(s.root, "bus/pci/devices", address))
	if err != nil || pathExists(dir, "physfn") {
		return verbs.PCILink{}
	}
	above := filepath.Dir(dir)
	if pciAddress(filepath.Base(above)) == "" || isEmulator(above) {
		return verbs.PCILink{}
	}
	l := verbs.PCILink{
		SpeedGTs: parseLinkSpeed(readAttr(dir, "current_link_speed")), Width: parseLinkWidth(readAttr(dir, "current_link_width")),
		BestSpeedGTs: min(parseLinkSpeed(readAttr(dir, "max_link_speed")), parseLinkSpeed(readAttr(above, "max_link_speed"))),
		BestWidth:    min(parseLinkWidth(readAttr(dir, "max_link_width")), parseLinkWidth(readAttr(above, "max_link_width"))),
	}
	if !l.Known() {
		return verbs.PCILink{}
	}
	return l
}

// isEmulated reports whether an emulator provides the PCI function at an address. QEMU's host bridges have the vendor of real ones, but
// the subsystem vendor of QEMU.
func (s FS) isEmulated(address string) bool {
	return isEmulator(filepath.Join(s.root, "bus/pci/devices", address))
}

func isEmulator(dir string) bool {
	return slices.Contains(emulators, readAttr(dir, "vendor")) || slices.Contains(emulators, readAttr(dir, "subsystem_vendor"))
}

// parseLinkSpeed returns the GT/s in "16.0 GT/s PCIe", or in "16 GT/s" of older kernels; 0 for "Unknown" (pci_speed_string in
// drivers/pci/probe.c).
func parseLinkSpeed(text string) float64 {
	number, rest, _ := strings.Cut(text, " ")
	speed, err := strconv.ParseFloat(number, 64)
	if err != nil || !strings.HasPrefix(rest, "GT/s") || speed < 0 || speed > maxLinkSpeed {
		return 0
	}
	return speed
}

// maxLinkSpeed and maxLinkWidth are above the values of any link. A function that does not answer reads as all ones.
const (
	maxLinkSpeed = 1024
	maxLinkWidth = 32
)

func parseLinkWidth(text string) int {
	width, err := strconv.Atoi(text)
	if err != nil || width < 0 || width > maxLinkWidth {
		return 0
	}
	return width
}
