package measure

import (
	"slices"

	"rdma_events/internal/verbs"
)

func deviceMetric() table[Device] {
	type view = Device
	return table[view]{
		Metric: Metric{
			Name:    "rdma_device",
			Emitted: onChange,
			Description: "A device and the worker process that watches it. What the device is stays on after it has " +
				"been opened once.",
		},
		tags: []tag[view]{
			newTag("device", "name of the RDMA device", func(v *view) string { return v.Device }),
		},
		fields: slices.Concat([]field[view]{
			yesNo("present", "1 while the host has the device", func(v *view) bool { return v.Present }),
			yesNo("open", "1 while a worker has it open", func(v *view) bool { return v.Open }),
			counter("opens", "times it was opened", func(v *view) uint64 { return v.Opens }),
			counter("removals", "times it was removed", func(v *view) uint64 { return v.Removals }),
			counter("fatals", "device_fatal events", func(v *view) uint64 { return v.Fatals }),
			text("worker_state", "starting, running, backing_off, stuck or stopped",
				func(v *view) string { return string(v.Worker.State) }),
			counter("worker_restarts", "workers started beyond the first",
				func(v *view) uint64 { return v.Worker.Restarts }),
			counter("crashes", "workers that ended unasked after they had opened the device; its removal is none",
				func(v *view) uint64 { return v.Worker.Crashes }),
			text("reason", "ok, or why it is not watched: starting, no_library, no_permission, no_device, unsupported, crashed, "+
				"stuck, removed, renamed, reassigned, excluded_netns, limit or recovering", func(v *view) string { return string(v.Reason) }),
		}, attributeRows()),
	}
}

// attributeRows are the fields that the device itself told when it was opened.
func attributeRows() []field[Device] {
	type view = Device
	known := func(v *view) bool { return v.Attr.Name != "" }
	name := func(name, description string, value func(*verbs.DeviceAttr) string) field[view] {
		return text(name, description, func(v *view) string { return value(&v.Attr) })
	}
	return []field[view]{
		maybe("ports", "", "ports it has", func(v *view) (int64, bool) { return int64(v.Attr.Ports), known(v) }),
		maybe("vectors", "", "completion vectors it has",
			func(v *view) (int64, bool) { return int64(v.Attr.Vectors), known(v) }),
		maybe("events_supported", "", "0 where the driver raises no asynchronous events",
			func(v *view) (int64, bool) { return bit(v.Attr.EventsSupported), known(v) }),
		maybe("is_vf", "", "1 for an SR-IOV virtual function",
			func(v *view) (int64, bool) { return bit(v.Attr.VirtualFunction), known(v) }),
		maybe("numa_node", "", "NUMA node; not there where the host has none",
			func(v *view) (int64, bool) { return int64(v.Attr.NUMANode), known(v) && v.Attr.NUMANode >= 0 }),
		name("node_guid", "node GUID", func(a *verbs.DeviceAttr) string { return a.NodeGUID }),
		name("sys_image_guid", "system image GUID", func(a *verbs.DeviceAttr) string { return a.SysImageGUID }),
		name("pci_address", "PCI address", func(a *verbs.DeviceAttr) string { return a.PCIAddress }),
		name("board_id", "board identifier", func(a *verbs.DeviceAttr) string { return a.BoardID }),
		name("driver", "kernel driver, as in mlx5_core", func(a *verbs.DeviceAttr) string { return a.Driver }),
		name("transport", "infiniband, iwarp, ...", func(a *verbs.DeviceAttr) string { return a.Transport }),
		name("fw_ver", "firmware version", func(a *verbs.DeviceAttr) string { return a.Firmware }),
	}
}
