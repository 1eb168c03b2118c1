package monitor

import (
	"slices"
	"strings"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
	"rdma_events/internal/telemetry/measure"
)

// alias is the new name of a renamed device. The zero alias means that the device has no new name.
type alias struct {
	name   string
	wanted bool // the device is monitored under this name
}

// findNewName returns the new name of a missing device: the name under which discovery now
// reports the same device (isSameDevice), and which it had not reported before. If there is
// none, findNewName returns the zero alias. A name that belongs to another missing device does
// not count: if a card does not survive a reload of the driver, the cards after it may each take
// the next lower number, and there is still one device too few. The caller holds m.mu.
func (m *Monitor) findNewName(d *Device, found []verbs.Found) alias {
	old, seen := d.identity()
	if !seen {
		return alias{}
	}
	for _, f := range found {
		known := slices.ContainsFunc(m.last, func(l verbs.Found) bool { return l.Name == f.Name })
		if !known && f.Name != d.name && m.cfg.isSameDevice(old, f) && !m.isNameOfMissing(f) {
			return alias{f.Name, m.shouldMonitor(f)}
		}
	}
	return alias{}
}

// isNameOfMissing reports whether another device is missing under the name of f.
func (m *Monitor) isNameOfMissing(f verbs.Found) bool {
	return slices.ContainsFunc(m.devices, func(o *Device) bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		state := measure.Device{Present: o.present, Reason: o.reason}
		return o.name == f.Name && (o.seen || o.remembered) && state.Missing() && !m.cfg.isSameDevice(o.found, f)
	})
}

// isSameDevice reports whether f is the device old, perhaps after a reload of its driver: the
// kernel's index is the same (verbs.Found.Same), or the node GUID is. The GUID counts only
// if the PCI function of f is in no bond, since a bond's device takes the GUID of a leg. For a device in another
// network namespace neither index nor GUID is known, and the PCI function decides.
func (c *Config) isSameDevice(old, f verbs.Found) bool {
	if (f.Netns == verbs.NetnsOther || old.Netns == verbs.NetnsOther) && f.PCI != "" && f.PCI == old.PCI {
		return true
	}
	return f.Same(old) || sameGUID(f.NodeGUID, old.NodeGUID) && (f.PCI == "" || c.Function(f.PCI).Master == "")
}

// sameGUID reports whether two node GUIDs are equal and not zero. A device with a GUID of
// zeros, often a virtual function, has not been given one.
func sameGUID(a, b string) bool { return a == b && strings.Trim(a, "0:") != "" }

// handleRename handles that the device has a new name. The old name counts as missing if the
// device is not monitored under the new one, or if the old name is in expect. The caller holds d.mu.
func (d *Device) handleRename(now alias) {
	d.renamed, d.reason = now.wanted && !d.expected, status.ReasonRenamed
	switch {
	case d.renamed:
		d.cfg.Memory.Rename(d.name, now.name)
		return
	case !now.wanted:
		d.log.Warn("device renamed to a name that the configuration excludes", "new_name", now.name)
	default:
		d.log.Warn("device renamed, but expect has the old name", "new_name", now.name)
	}
	d.reason = status.ReasonRemoved
}

// explainAbsence sets the reason of a removed device to reassigned while its PCI function has
// another use. That use may begin some time after the removal, and may end. A device in
// expect keeps the reason removed in any case.
func (d *Device) explainAbsence(found []verbs.Found, t *moment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	without := d.removedReason()
	if d.isAwaited() {
		without = status.ReasonNoDevice
	}
	if d.present || d.expected || d.mayBeMoving() || d.reason != without && d.reason != status.ReasonReassigned {
		return
	}
	d.reason = without
	if d.cfg.isReassigned(d.found, found) {
		d.reason = status.ReasonReassigned
	}
	d.emitIfChanged(t)
}

// isReassigned reports whether the PCI function of a device that is gone has another
// driver, such as vfio-pci, or another RDMA device, such as a bond's. A bond of an
// adapter's ports has its RDMA device on the function of one port. The functions of the
// other ports then have no RDMA device, but network devices in the same bond.
func (c *Config) isReassigned(old verbs.Found, found []verbs.Found) bool {
	if old.PCI == "" {
		return false
	}
	own := c.Function(old.PCI)
	if old.Driver != "" && own.Driver != "" && own.Driver != old.Driver {
		return true
	}
	return slices.ContainsFunc(found, func(f verbs.Found) bool {
		switch {
		case c.isSameDevice(old, f) || !isLater(f, old):
			return false
		case f.PCI == old.PCI:
			return true
		}
		return own.Master != "" && verbs.PCISlot(f.PCI) == verbs.PCISlot(old.PCI) && c.Function(f.PCI).Master == own.Master
	})
}

// isLater reports whether f may have come after old: the kernel's indexes grow.
func isLater(f, old verbs.Found) bool { return f.Index < 0 || old.Index < 0 || f.Index > old.Index }
