package measure

import (
	"slices"
	"time"

	"rdma_events/internal/device/verbs"
	"rdma_events/internal/sys/status"
)

// Device is a point of rdma_device.
type Device struct {
	Device   string
	Present  bool
	Open     bool
	Opens    uint64
	Removals uint64
	Fatals   uint64
	// UnplannedRemovals are those of Removals for which no intention is known, and which were not FunctionRemovals.
	UnplannedRemovals uint64
	// FunctionRemovals is how often the kernel removed the PCI function that the device goes with.
	FunctionRemovals uint64
	Link             verbs.PCILink // of its PCI function
	Reason           status.Reason
	// OtherNetnsNS is how long the device has been in another network namespace, if InOtherNetns.
	OtherNetnsNS int64
	InOtherNetns bool
	Worker       status.Status
	Attr         verbs.DeviceAttr // of the last opening; Name "" before the first
	At           time.Time
}

// Missing reports whether the device is gone without a reason that is known to be intended.
func (d *Device) Missing() bool {
	switch d.Reason {
	case status.ReasonRenamed, status.ReasonReassigned, status.ReasonDeleted, status.ReasonReleased, status.ReasonUnwatchable:
		return false
	}
	return !d.Present
}

// Intended reports whether the device is there and not open for a reason that is known and no fault.
func (d *Device) Intended() bool {
	return d.InOtherNetns || d.Reason == status.ReasonReleased || d.Reason == status.ReasonUnwatchable
}

// addTo adds the device to the sums of its host.
func (d *Device) addTo(h *Host) {
	switch {
	case d.Missing():
		h.Missing++
	case d.Present && !d.Open && !d.Intended():
		h.Unwatched++
	}
}

// Key implements Point.
func (d *Device) Key() Key {
	return Key{Measurement: devices.Name, Device: d.Device}
}

// Time implements Point.
func (d *Device) Time() time.Time { return d.At }

// Merge implements Point: the later one replaces this.
func (d *Device) Merge(later Point) { *d = *later.(*Device) }

// Clone implements Point.
func (d *Device) Clone() Point { return clone(d) }

// Events implements Point.
func (*Device) Events() uint64 { return 0 }

// Lines implements Point.
func (d *Device) Lines(add func(Line)) { add(devices.line(d)) }

var devices = table[Device]{
	Metric: Metric{
		Name:    "rdma_device",
		Emitted: onChange,
		Description: "A device and the worker process that watches it. What the device is stays on after it has " +
			"been opened once.",
	},
	tags: []tag[Device]{
		newTag("device", "name of the RDMA device", func(v *Device) string { return v.Device }),
	},
	fields: slices.Concat([]field[Device]{
		yesNo("present", "1 while the host has the device, also in another network namespace", func(v *Device) bool { return v.Present }),
		yesNo("open", "1 while a worker has it open", func(v *Device) bool { return v.Open }),
		counter("opens", "times it was opened", func(v *Device) uint64 { return v.Opens }),
		counter("removals", "times it was removed from the host", func(v *Device) uint64 { return v.Removals }),
		counter("unplanned_removals", "removals, but for those while the device was released, those after which its PCI function had another "+
			"driver or RDMA device, deletions of a soft device, and those of function_removals; counted once that is known, 15 s after the removal at most",
			func(v *Device) uint64 { return v.UnplannedRemovals }),
		counter("fatals", "device_fatal events, but for those that the kernel raises when it moves the device to another network namespace, "+
			"removes its PCI function or deletes a soft device", func(v *Device) uint64 { return v.Fatals }),
		counter("function_removals", "times its PCI function was removed from the host, as the host of a virtual machine does for servicing; for a "+
			"scalable function, the one that it is on", func(v *Device) uint64 { return v.FunctionRemovals }),
		text("worker_state", "starting, running, backing_off, stuck or stopped",
			func(v *Device) status.State { return v.Worker.State }),
		counter("worker_restarts", "workers started beyond the first",
			func(v *Device) uint64 { return v.Worker.Restarts }),
		counter("crashes", "workers that ended unasked after they had opened the device; its removal is none",
			func(v *Device) uint64 { return v.Worker.Crashes }),
		text("reason", "ok, or why it is not watched: starting, no_library, no_permission, no_device, unsupported, crashed, stuck, removed, renamed, "+
			"reassigned, deleted (a soft device), released, other_netns, excluded_netns, limit, recovering, node_missing (no file in /dev/infiniband) or "+
			"unwatchable (no program here can open it)", func(v *Device) status.Reason { return v.Reason }),
		maybe("other_netns_age_ns", "ns", "how long it has been in another network namespace, as far as the plugin has seen it there",
			func(v *Device) (int64, bool) { return v.OtherNetnsNS, v.InOtherNetns }),
	}, linkFields(), attributeRows()),
}

// linkFields returns the fields about the link of the device's PCI function.
func linkFields() []field[Device] {
	return []field[Device]{
		float("pcie_speed_gts", "GT/s", "speed of a lane of its PCIe link; not for a virtual function, nor in a virtual machine",
			func(v *Device) (float64, bool) { return v.Link.SpeedGTs, v.Link.Known() }),
		maybe("pcie_width", "", "lanes of its PCIe link", func(v *Device) (int64, bool) { return int64(v.Link.Width), v.Link.Known() }),
		float("pcie_speed_best_gts", "GT/s", "speed that both ends of the link support: the device and the port above it",
			func(v *Device) (float64, bool) { return v.Link.BestSpeedGTs, v.Link.Known() }),
		maybe("pcie_width_best", "", "lanes that both ends support",
			func(v *Device) (int64, bool) { return int64(v.Link.BestWidth), v.Link.Known() }),
	}
}

// attributeRows returns the fields that the device itself reported when it was opened.
func attributeRows() []field[Device] {
	known := func(v *Device) bool { return v.Attr.Name != "" }
	name := func(name, description string, value func(*verbs.DeviceAttr) string) field[Device] {
		return text(name, description, func(v *Device) string { return value(&v.Attr) })
	}
	return []field[Device]{
		maybe("ports", "", "ports it has", func(v *Device) (int64, bool) { return int64(v.Attr.Ports), known(v) }),
		maybe("vectors", "", "completion vectors it has",
			func(v *Device) (int64, bool) { return int64(v.Attr.Vectors), known(v) }),
		maybe("events_supported", "", "0 where the driver raises no asynchronous events",
			func(v *Device) (int64, bool) { return bit(v.Attr.EventsSupported), known(v) }),
		maybe("is_vf", "", "1 for an SR-IOV virtual function or a scalable function",
			func(v *Device) (int64, bool) { return bit(v.Attr.VirtualFunction), known(v) }),
		maybe("numa_node", "", "NUMA node; not there where the host has none",
			func(v *Device) (int64, bool) { return int64(v.Attr.NUMANode), known(v) && v.Attr.NUMANode >= 0 }),
		name("node_guid", "node GUID", func(a *verbs.DeviceAttr) string { return a.NodeGUID }),
		name("sys_image_guid", "system image GUID", func(a *verbs.DeviceAttr) string { return a.SysImageGUID }),
		name("pci_address", "PCI address", func(a *verbs.DeviceAttr) string { return a.PCIAddress }),
		name("board_id", "board identifier", func(a *verbs.DeviceAttr) string { return a.BoardID }),
		name("driver", "kernel driver, as in mlx5_core", func(a *verbs.DeviceAttr) string { return a.Driver }),
		name("transport", "infiniband, iwarp, ...", func(a *verbs.DeviceAttr) string { return a.Transport }),
		name("fw_ver", "firmware version", func(a *verbs.DeviceAttr) string { return a.Firmware }),
	}
}
