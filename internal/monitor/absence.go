package monitor

import (
	"fmt"
	"slices"
	"strings"

	"rdma_events/internal/status"
	"rdma_events/internal/verbs"
)

// alias is the name that a device has got.
type alias struct {
	name   string
	wanted bool // it is monitored under that name
}

// nameNow returns the name of a device that is missing, if it is there under one that
// has not been there before.
func (m *Monitor) nameNow(d *Device, found []verbs.Found) alias {
	old, seen := d.identity()
	if !seen {
		return alias{}
	}
	for _, f := range found {
		known := slices.ContainsFunc(m.last, func(l verbs.Found) bool { return l.Name == f.Name })
		if !known && f.Name != d.name && m.cfg.goesOn(old, f) {
			return alias{f.Name, m.wants(f)}
		}
	}
	return alias{}
}

// goesOn reports whether f is the device old, perhaps after a reload of its driver. A
// bond's device takes the GUID of one of its legs.
func (c *Config) goesOn(old, f verbs.Found) bool {
	return f.Same(old) || sameGUID(f.NodeGUID, old.NodeGUID) && (f.PCI == "" || c.Function(f.PCI).Master == "")
}

// sameGUID compares node GUIDs. One of zeros only is that of a device, often a
// virtual function, that has not been given any.
func sameGUID(a, b string) bool { return a == b && strings.Trim(a, "0:") != "" }

// rename takes that the device has another name. Where its series do not go on under
// that, or the old name is in expect, it is missing. The caller holds d.mu.
func (d *Device) rename(now alias) {
	d.renamed, d.reason = now.wanted && !d.expected, status.ReasonRenamed
	switch {
	case d.renamed:
		return
	case !now.wanted:
		d.log.Warn(fmt.Sprintf("%s is called %s now, which is left out by the configuration: it is no longer watched", d.name, now.name))
	default:
		d.log.Warn(fmt.Sprintf("%s is called %s now, and is watched by that name; expect has the old one", d.name, now.name))
	}
	d.reason = status.ReasonRemoved
}

// absence says of a device that is gone whether its PCI function has another use now.
// That may begin some time after the device has gone, and end. One in expect is
// missing all the same.
func (d *Device) absence(found []verbs.Found, t *moment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.present || d.expected || d.reason != status.ReasonRemoved && d.reason != status.ReasonReassigned {
		return
	}
	d.reason = status.ReasonRemoved
	if d.cfg.isReassigned(d.found, found) {
		d.reason = status.ReasonReassigned
	}
	d.tell(t)
}

// isReassigned reports whether another driver has the PCI function of a device that
// is gone, as vfio-pci, or another RDMA device does, as that of a bond. A bond of an
// adapter's ports has its RDMA device on one port's function; the functions of the
// others have none any more, but network devices in the same bond.
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
		case c.goesOn(old, f) || !isLater(f, old):
			return false
		case f.PCI == old.PCI:
			return true
		}
		return own.Master != "" && slot(f.PCI) == slot(old.PCI) && c.Function(f.PCI).Master == own.Master
	})
}

// isLater reports whether f may have come after old: the kernel's indexes grow.
func isLater(f, old verbs.Found) bool { return f.Index < 0 || old.Index < 0 || f.Index > old.Index }

// slot is a PCI address without the function's number.
func slot(address string) string {
	before, _, _ := strings.Cut(address, ".")
	return before
}
