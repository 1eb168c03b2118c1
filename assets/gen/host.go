package gen

import (
	"rdma_events/assets/grafana"
	"rdma_events/internal/agent/alerts"
)

// hostUID is the identifier of the dashboard of one host.
const hostUID = alerts.HostDashboard

func hostDashboard(n *names, e Engine, o *Options) *grafana.Dashboard {
	b := newBoard(n, e, o, []string{"host"})
	b.row(1, "Now")
	b.stat(panel{
		id: 2, title: "Devices", width: 4, height: 4, now: true,
		help: help{
			"Devices that are present.", nothing + ".", "compare with the number of devices that the host should have.",
			"devices that the option `devices_exclude` leaves out.",
		},
		queries: []query{{
			text: `SELECT sum("n") AS "sum" FROM (SELECT last("devices") AS "n" FROM {rdma_collector} WHERE {filter} GROUP BY ` + byHost + `)
				WHERE $timeFilter`,
			prom: `sum(rdma_collector_devices{FILTER})`,
		}},
	}, "-", newThresholds("text"))
	b.troubleTiles()
	b.row(8, "Devices and ports")
	b.hostDevices()
	b.ports(10, "Ports", 12, 10)
	b.row(16, "When")
	b.hostHistory()
	b.collapsed(21, "Beside it: Telegraf's input infiniband", b.hostCounters)
	return b.dashboard(hostUID, "RDMA host", "The RDMA devices of one host side by side.", "30s",
		[]grafana.Link{b.link("Overview", overviewUID, "All hosts"), b.link("Device", deviceUID, "One device"), b.toApps()},
		append(b.places(), b.one("host", "Host", "rdma_device", "host", nil)))
}

func (b *board) hostDevices() {
	b.table(panel{
		id: 9, title: "Devices", width: 12, height: 10, now: true,
		help: help{
			"A row for each device: its attributes, and whether a worker watches it.",
			nothing + "; a reason other than ok says why events of the device are not read.",
			"compare driver and firmware with other devices; follow the link of the device. Stuck counts the kinds of calls that its firmware does not answer.",
			"the firmware of devices that were not opened yet.",
		},
		queries: []query{
			{text: `SELECT last("driver") AS "driver", last("fw_ver") AS "firmware", last("pci_address") AS "PCI", last("numa_node") AS "NUMA",
				last("worker_state") AS "worker", last("reason") AS "reason" FROM {rdma_device} WHERE {filter} GROUP BY ` + byDevice},
			{text: `SELECT sum("stuck") AS "stuck" FROM (SELECT last("stuck") AS "stuck" FROM {rdma_command} WHERE {filter} GROUP BY ` + byCall + `)
				WHERE $timeFilter GROUP BY ` + byDevice},
			{prom: `max by (host, plugin_instance, device, driver, fw_ver, pci_address, numa_node) (rdma_device_info{FILTER} == 1)`},
			{prom: `max by (host, plugin_instance, device, worker_state, reason) (rdma_device_status{FILTER} == 1)`},
			{prom: `sum by (host, plugin_instance, device) (rdma_command_stuck{FILTER})`},
		},
	}, b.toRow(), column{name: "device"}, column{name: "driver"},
		column{name: "firmware", prom: "fw_ver", title: "firmware"}, column{name: "PCI", prom: "pci_address", title: "PCI"},
		column{name: "NUMA", prom: "numa_node", title: "NUMA"}, column{name: "worker", prom: "worker_state", title: "worker"},
		column{name: "reason"}, column{name: "stuck", prom: "Value #C", title: "stuck", bad: true},
		column{name: none, prom: "Value #A", hidden: true}, column{name: none, prom: "Value #B", hidden: true},
		column{name: "host", hidden: true}, column{name: "instance"})
}

// ports adds a table of the ports that match the condition of the dashboard.
func (b *board) ports(id int, title string, width, height int) {
	value := func(series string) query {
		return query{prom: `max by (host, plugin_instance, device, port) (` + series + `)`}
	}
	b.table(panel{
		id: id, title: title, width: width, height: height, now: true,
		help: help{
			"A row for each port: its state and how long it has lasted, its rate and its best rate, and its flaps since the plugin started.",
			nothing + "; if the rate is below the best, the link came back slower.",
			"follow the device's link.",
			"changes at ports of devices that are not open: the last known state is shown.",
		},
		queries: []query{
			{text: `SELECT last("state") AS "state", last("state_age_ns") AS "age", last("rate_gbps") AS "rate", last("rate_best_gbps") AS "best",
				last("flaps") AS "flaps", last("netdev") AS "netdev" FROM {rdma_port} WHERE {filter} GROUP BY ` + byPort},
			value(`rdma_port_state{FILTER}`), value(`rdma_port_state_age_seconds{FILTER}`), value(`rdma_port_rate_bytes_per_second{FILTER} * 8`),
			value(`rdma_port_rate_best_bytes_per_second{FILTER} * 8`), value(`rdma_port_flaps_total{FILTER}`),
			{prom: `max by (host, plugin_instance, device, port, netdev) (rdma_port_info{FILTER} == 1)`},
		},
	}, b.toRow(), column{name: "device"}, column{name: "port"}, column{name: "state", prom: "Value #A", title: "state"},
		column{name: "age", prom: "Value #B", title: "age", unit: "ns"}, column{name: "rate", prom: "Value #C", title: "rate", unit: "Gbits"},
		column{name: "best", prom: "Value #D", title: "best", unit: "Gbits"}, column{name: "flaps", prom: "Value #E", title: "flaps"},
		column{name: "netdev"}, column{name: none, prom: "Value #F", hidden: true}, column{name: "host", hidden: true}, column{name: "instance"})
	b.mapped("state", portStates())
}

// mapped shows the numbers of a column as coloured words.
func (b *board) mapped(column string, m grafana.Mapping) {
	b.last().FieldConfig.Overrides = append(b.last().FieldConfig.Overrides, grafana.Override{
		Matcher: grafana.Matcher{ID: "byName", Options: column},
		Properties: []grafana.Property{
			{ID: "mappings", Value: []grafana.Mapping{m}},
			{ID: "custom.cellOptions", Value: map[string]any{"type": "color-text"}},
		},
	})
}

func (b *board) hostHistory() {
	b.timeline(panel{
		id: 17, title: "Ports", width: 24, height: 9,
		help: help{
			"The state of each port of each device. " + b.lowest(),
			"down.", "if all ports change at once, check the switch and the host; if one does, check its cable, transceiver and switch port.",
			"anything while the device is absent (grey) or no plugin runs (empty).",
		},
		queries: []query{{
			alias: "$tag_device, port $tag_port",
			text:  `SELECT min("state") AS "state" FROM {rdma_port} WHERE {filter} GROUP BY time($__interval), "device", "port" fill(none)`,
			prom:  "min by (device, port) (" + inInterval("min", "rdma_port_state{FILTER}") + ")",
		}},
	}, portStates())
	b.series(panel{
		id: 18, title: "Events", width: 8, height: 9,
		help: help{
			"Asynchronous events of each device in each interval.",
			nothing + "; events of all devices at once point to a switch or a subnet manager.",
			"look at the Device dashboard for their types.",
			"events of applications' queue pairs and queues: only the process that owns the object receives them.",
		},
		queries: []query{{
			alias: "$tag_device",
			text:  `SELECT sum("count") AS "events" FROM {rdma_async_event} WHERE {filter} GROUP BY time($__interval), "device" fill(0)`,
			prom:  `sum by (device) (increase(rdma_async_events_total{FILTER}[$__interval])) > 0`,
		}},
	}, bars)
	b.series(panel{
		id: 19, title: "Probe failures", width: 8, height: 9,
		help: help{
			"Probe rounds of each device that lost an event or a completion, or ended with an error, in each interval.",
			nothing + "; normally there are none.",
			"the Device dashboard has the vector and the kind.",
			"applications' own queues.",
		},
		queries: []query{{
			alias: "$tag_device",
			text: `SELECT sum("d") AS "failures" FROM (SELECT non_negative_difference("lost_events") + non_negative_difference("lost_completions")
				+ non_negative_difference("errors") AS "d" FROM {rdma_cq_probe} WHERE {filter} GROUP BY ` + byProbe + `)
				WHERE $timeFilter GROUP BY time($__interval), "device" fill(0)`,
			prom: `sum by (device) (increase(rdma_cq_probe_lost_events_total{FILTER}[$__interval])
				+ increase(rdma_cq_probe_lost_completions_total{FILTER}[$__interval])
				+ increase(rdma_cq_probe_errors_total{FILTER}[$__interval]))`,
		}},
	}, bars)
	b.series(panel{
		id: 20, title: "Wake-up p99", width: 8, height: 9, unit: b.names.unit("rdma_cq_probe.wake_ns_p99"),
		help: help{
			"The 99th percentile of the wake-up latency on the slowest vector of each device.",
			nothing + "; one line above the others points to the interrupts of that device, a rise of all lines to the host.",
			"check what has changed on the CPUs: load, frequency governor, idle states.",
			"cable and fabric.",
		},
		queries: []query{{
			alias: "$tag_device",
			text:  `SELECT max("wake_ns_p99") AS "p99" FROM {rdma_cq_probe} WHERE {filter} GROUP BY time($__interval), "device" fill(none)`,
			prom:  `max by (device) (rdma_cq_probe_wake_p99_seconds{FILTER})`,
		}},
	}, lines)
}

// hostCounters adds the devices' own counters, which Telegraf's input infiniband reads.
func (b *board) hostCounters() {
	const source = "The input infiniband of the same Telegraf reads them from /sys/class/infiniband, for InfiniBand and RoCE. **No data** means that it " +
		"is not configured there, that the driver has no such counters, or, for Prometheus, that telegraf.conf is from a version without this row."
	const by = ` FROM "$policy"."infiniband" WHERE {filter} GROUP BY time($__interval), "device", "port" fill(none)`
	rate := func(alias, field string) query {
		return query{alias: alias + ", $tag_device, port $tag_port",
			text: `SELECT non_negative_derivative(max("` + field + `"), 1s) * 32 AS "bits"` + by,
			prom: "rate(infiniband_" + field + "{FILTER}[$__rate_interval]) * 32"}
	}
	count := func(field string) query {
		return query{alias: "$tag_device, port $tag_port", text: `SELECT non_negative_difference(max("` + field + `")) AS "n"` + by,
			prom: "increase(infiniband_" + field + "{FILTER}[$__interval])"}
	}
	b.series(panel{
		id: 22, title: "Traffic", width: 8, height: 8, unit: "bps",
		help: help{"port_rcv_data and port_xmit_data of each port, which count words of 4 bytes. " + source,
			nothing + ".", "compare with the rate of the link.", "which application causes the traffic."},
		queries: []query{rate("received", "port_rcv_data"), rate("sent", "port_xmit_data")},
	}, lines)
	b.series(panel{
		id: 23, title: "Discards", width: 8, height: 8,
		help: help{"port_xmit_discards in each interval: packets that the port could not send, for example because the link was down or congested. " + source,
			nothing + ".", "compare with the ports' states above, and with the switch's counters.", "packets that switches drop."},
		queries: []query{count("port_xmit_discards")},
	}, bars)
	b.series(panel{
		id: 24, title: "Symbol errors", width: 8, height: 8,
		help: help{"symbol_error in each interval: errors of the physical link. " + source,
			nothing + "; a port that has more of them than its neighbours has a bad cable or transceiver.", "clean or replace the cable.",
			"the counters of the Ethernet link: `ethtool -S` shows them."},
		queries: []query{count("symbol_error")},
	}, bars)
}
