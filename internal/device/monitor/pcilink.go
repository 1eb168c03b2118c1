package monitor

import (
	"time"

	"rdma_events/internal/device/verbs"
)

// pciLinkInterval is the interval at which the link of a device's PCI function is read. A degraded link is read at each Gather, so that
// the points show its recovery at once.
const pciLinkInterval = 10 * time.Minute

// pciLink is the last reading of the link of a Device's PCI function. Device.mu guards it.
type pciLink struct {
	verbs.PCILink
	readAt int64 // CLOCK_MONOTONIC ns; 0: not since the device appeared
}

// readLink reads the link of the PCI function of a present device, if the reading is due. The caller holds d.mu.
func (d *Device) readLink(t *moment) {
	l := &d.link
	switch {
	case !d.present || d.released || d.found.PCI == "" || d.found.VirtualFunction:
		*l = pciLink{}
	case l.readAt == 0, l.Degraded(), t.mono-l.readAt >= int64(pciLinkInterval):
		*l = pciLink{d.cfg.PCILink(d.found.PCI), max(1, t.mono)}
	}
}
