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
	// UnplannedRemovals counts the Removals without a known intention that are not FunctionRemovals.
	UnplannedRemovals uint64
	// FunctionRemovals counts how often the kernel removed the PCI function of the device.
	FunctionRemovals uint64
	Link             verbs.PCILink // of its PCI function
	Reason           status.Reason
	// OtherNetnsNS is the time that the device has been in another network namespace, if InOtherNetns.
	OtherNetnsNS int64
	InOtherNetns bool
	Worker       status.Status
	Attr         verbs.DeviceAttr // as reported at the last opening; Name is "" before the first one
	At           time.Time
}

// Missing reports whether the device is gone and its Reason is not a known intention.
func (d *Device) Missing() bool {
	switch d.Reason {
	case status.ReasonRenamed, status.ReasonReassigned, status.ReasonDeleted, status.ReasonReleased, status.ReasonUnwatchable:
		return false
	}
	return !d.Present
}

// Intended reports whether the device is present and deliberately not open.
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
	return Key{Measurement: deviceTable.Name, Device: d.Device}
}

// Time implements Point.
func (d *Device) Time() time.Time { return d.At }

// Merge implements Point. The later point replaces this one.
func (d *Device) Merge(later Point) { *d = *later.(*Device) }

// Clone implements Point.
func (d *Device) Clone() Point { return clone(d) }

// Events implements Point.
func (*Device) Events() uint64 { return 0 }

// Lines implements Point.
func (d *Device) Lines(add func(Line)) { add(deviceTable.line(d)) }

var deviceTable = table[Device]{
	Metric: Metric{
		Name:    "rdma_device",
		Emitted: onChange,
		Description: "A device and the worker process that watches it. The attributes of the device remain after it has " +
			"been opened once.",
	},
	tags: []tag[Device]{
		requiredTag("device", "name of the RDMA device", func(v *Device) string { return v.Device }),
	},
	fields: slices.Concat([]field[Device]{
		boolInt("present", "1 while the host has the device, in this or another network namespace", func(v *Device) bool { return v.Present }),
		boolInt("open", "1 while a worker has the device open", func(v *Device) bool { return v.Open }),
		counter("opens", "times the device was opened", func(v *Device) uint64 { return v.Opens }),
		counter("removals", "times the device was removed from the host", func(v *Device) uint64 { return v.Removals }),
		counter("unplanned_removals", "removals other than: while the device was released, before its PCI function got another driver or RDMA device, "+
			"deletions of a soft device, and function_removals; counted once this is known, at most 15 s after the removal",
			func(v *Device) uint64 { return v.UnplannedRemovals }),
		counter("fatals", "device_fatal events, except those that the kernel raises when it moves the device to another network namespace, "+
			"removes its PCI function, gives it to another driver or another RDMA device, or deletes a soft device", func(v *Device) uint64 { return v.Fatals }),
		counter("function_removals", "times the PCI function of the device was removed from the host, as hypervisors do for servicing, while "+
			"the device was not released; for a scalable function, its parent PCI function", func(v *Device) uint64 { return v.FunctionRemovals }),
		optionalText("worker_state", "state of the worker: starting, running, backing_off, stuck or stopped",
			func(v *Device) status.State { return v.Worker.State }),
		counter("worker_restarts", "worker starts, without the first one",
			func(v *Device) uint64 { return v.Worker.Restarts }),
		counter("crashes", "workers that ended by themselves after they had opened the device; a removal of the device does not count",
			func(v *Device) uint64 { return v.Worker.Crashes }),
		optionalText("reason", "ok, or why the device is not watched: starting, no_library, no_permission, no_device, unsupported, crashed, stuck, removed, "+
			"renamed, reassigned, deleted (a soft device), released, other_netns, excluded_netns, limit, recovering, node_missing (no file in /dev/infiniband) or "+
			"unwatchable (no program here can open it)", func(v *Device) status.Reason { return v.Reason }),
		optionalInt("other_netns_age_ns", "ns", "time that the device has been in another network namespace, as far as the plugin has observed it",
			func(v *Device) (int64, bool) { return v.OtherNetnsNS, v.InOtherNetns }),
	}, pcieLinkFields(), deviceAttrFields()),
}

// pcieLinkFields returns the fields about the PCIe link of the device's PCI function.
func pcieLinkFields() []field[Device] {
	return []field[Device]{
		optionalFloat("pcie_speed_gts", "GT/s", "speed of each lane of the PCIe link; not for virtual functions, and not in virtual machines",
			func(v *Device) (float64, bool) { return v.Link.SpeedGTs, v.Link.Known() }),
		optionalInt("pcie_width", "", "lanes of the PCIe link", func(v *Device) (int64, bool) { return int64(v.Link.Width), v.Link.Known() }),
		optionalFloat("pcie_speed_best_gts", "GT/s", "greatest speed per lane that both ends of the PCIe link (the device and the port above it) support",
			func(v *Device) (float64, bool) { return v.Link.BestSpeedGTs, v.Link.Known() }),
		optionalInt("pcie_width_best", "", "greatest number of lanes that both ends of the PCIe link support",
			func(v *Device) (int64, bool) { return int64(v.Link.BestWidth), v.Link.Known() }),
	}
}

// deviceAttrFields returns the fields that the device reported when it was opened.
func deviceAttrFields() []field[Device] {
	known := func(v *Device) bool { return v.Attr.Name != "" }
	name := func(name, description string, value func(*verbs.DeviceAttr) string) field[Device] {
		return optionalText(name, description, func(v *Device) string { return value(&v.Attr) })
	}
	return []field[Device]{
		optionalInt("ports", "", "number of ports", func(v *Device) (int64, bool) { return int64(v.Attr.Ports), known(v) }),
		optionalInt("vectors", "", "number of completion vectors",
			func(v *Device) (int64, bool) { return int64(v.Attr.Vectors), known(v) }),
		optionalInt("events_supported", "", "0 if the driver raises no asynchronous events",
			func(v *Device) (int64, bool) { return boolToInt(v.Attr.EventsSupported), known(v) }),
		optionalInt("is_vf", "", "1 for an SR-IOV virtual function or a scalable function",
			func(v *Device) (int64, bool) { return boolToInt(v.Attr.VirtualFunction), known(v) }),
		optionalInt("numa_node", "", "NUMA node; not if the host has none",
			func(v *Device) (int64, bool) { return int64(v.Attr.NUMANode), known(v) && v.Attr.NUMANode >= 0 }),
		name("node_guid", "node GUID", func(a *verbs.DeviceAttr) string { return a.NodeGUID }),
		name("sys_image_guid", "system image GUID", func(a *verbs.DeviceAttr) string { return a.SysImageGUID }),
		name("pci_address", "PCI address", func(a *verbs.DeviceAttr) string { return a.PCIAddress }),
		name("board_id", "board identifier", func(a *verbs.DeviceAttr) string { return a.BoardID }),
		name("driver", "kernel driver, such as mlx5_core", func(a *verbs.DeviceAttr) string { return a.Driver }),
		name("transport", "transport: infiniband, iwarp, ...", func(a *verbs.DeviceAttr) string { return a.Transport }),
		name("fw_ver", "firmware version", func(a *verbs.DeviceAttr) string { return a.Firmware }),
	}
}
