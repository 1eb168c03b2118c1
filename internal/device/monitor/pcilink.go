package monitor

import (
	"time"

	"rdma_events/internal/device/verbs"
)

// pciLinkInterval is how often the link of a device's PCI function is read. A degraded one is read for each interval of Telegraf, so that
// one that has been slow for a moment is not called slow for longer.
const pciLinkInterval = 10 * time.Minute

// pciLink is what a Device knows about the link of its PCI function. Device.mu guards it.
type pciLink struct {
	verbs.PCILink
	readAt int64 // CLOCK_MONOTONIC ns; 0: not since the device appeared
}

// readLink reads the link of the PCI function of a device that is present, if it is time. The caller holds d.mu.
func (d *Device) readLink(t *moment) {
	l := &d.link
	switch {
	case !d.present || d.released || d.found.PCI == "" || d.found.VirtualFunction:
		*l = pciLink{}
	case l.readAt == 0, l.Degraded(), t.mono-l.readAt >= int64(pciLinkInterval):
		*l = pciLink{d.cfg.PCILink(d.found.PCI), max(1, t.mono)}
	}
}
