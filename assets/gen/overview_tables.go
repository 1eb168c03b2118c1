package gen

import "rdma_events/assets/grafana"

// overviewTables adds tables. If a row has several fields, the outer query also groups
// by the series. Otherwise InfluxDB 1.8 puts fields of different series into one
// row if some series lack a field.
func (b *board) overviewTables() {
	b.table(panel{
		id: 10, title: "Ports down", width: 6, height: 8, now: true,
		help: help{
			"Up to 100 ports that are not active now. Age is how long they have been in this state, as far as the plugin has seen.",
			"nothing; every row is an outage.",
			"follow the device's link; look at the cable, the switch port and, on InfiniBand, the subnet manager.",
			"ports of silent hosts and missing devices; ports of `expected_down`, by intent.",
		},
		queries: []query{
			{text: `SELECT "state_age_ns", "up" FROM (SELECT last("up") AS "up",
				last("state_age_ns") AS "state_age_ns" FROM {rdma_port} WHERE {filter} AND "expected" != 'down'
				GROUP BY ` + byPort + `) WHERE "up" = 0 AND $timeFilter GROUP BY ` + byPort},
			{prom: `max by (PLACE, host, plugin_instance, device, port) (rdma_port_up{FILTER,expected!="down"} == 0)`},
			{prom: `max by (PLACE, host, plugin_instance, device, port) (rdma_port_state_age_seconds{FILTER}
				and on (host, plugin_instance, device, port) rdma_port_up{FILTER,expected!="down"} == 0)`},
		},
	}, b.toRow(), append(b.placed(), column{name: "device"}, column{name: "port"},
		column{name: "state_age_ns", prom: "Value #B", title: "age", unit: b.names.unit("rdma_port.state_age_ns")},
		column{name: "up", prom: "Value #A", title: "up"})...)
	b.first(100)
	b.table(panel{
		id: 11, title: "Devices missing or not watched", width: 6, height: 8, now: true,
		help: help{
			"Up to 100 devices that no worker has open.",
			"nothing; every row is a device that no worker watches.",
			"the README says for each reason what to do.",
			"devices of silent hosts.",
		},
		queries: []query{{text: `SELECT "present", "worker_state", "reason" FROM (SELECT last("open") AS "open",
			last("present") AS "present", last("worker_state") AS "worker_state", last("reason") AS "reason"
			FROM {rdma_device} WHERE {filter} GROUP BY ` + byDevice + `)
			WHERE "open" = 0 AND $timeFilter AND "reason" != 'renamed' AND "reason" != 'reassigned' GROUP BY ` + byDevice,
			prom: `max by (PLACE, host, plugin_instance, device, worker_state, reason) (rdma_device_status{FILTER,reason!~"renamed|reassigned"} == 1
				and on (host, plugin_instance, device) rdma_device_open{FILTER} == 0)`}},
	}, b.toRow(), append(b.placed(), column{name: "device"}, column{name: "present", prom: none},
		column{name: "worker_state", title: "worker"}, column{name: "reason"})...)
	b.first(100)
	b.table(panel{
		id: 33, title: "Links slow", width: 6, height: 8, now: true,
		help: help{
			"Up to 100 active ports whose rate is below their best since the plugin started.",
			nothing + "; every row is a link that came back slower.",
			"follow the device's link; look at cable and transceiver, and at what the switch port is set to.",
			"since when: rdma_attr_change and the Device dashboard have it.",
		},
		queries: []query{
			{text: `SELECT "rate", "best" FROM (` + rates + `) WHERE "up" = 1 AND "rate" < "best" AND $timeFilter GROUP BY ` + byPort},
			{prom: slowLinks("rdma_port_rate_bytes_per_second")},
			{prom: slowLinks("rdma_port_rate_best_bytes_per_second")},
		},
	}, b.toRow(), append(b.placed(), column{name: "device"}, column{name: "port"},
		column{name: "rate", prom: "Value #A", title: "rate", unit: "Gbits"}, column{name: "best", prom: "Value #B", title: "best", unit: "Gbits"})...)
	b.first(100)
	b.silentHosts()
	b.table(panel{
		id: 34, title: "Failing probes", width: 6, height: 8,
		help: help{
			"Up to 100 probes with rounds that failed in the dashboard's range: the completion was there and its event did not come; neither " +
				"came; a bad status or a verb that failed.",
			nothing + "; every row is a vector whose applications would have slept on, or a device that does not work.",
			"lost events: the vector's line in /proc/interrupts and its affinity; lost completions: the kernel log, then drain the host.",
			"applications' own queues" + restarted,
		},
		queries: []query{
			{text: `SELECT "events", "completions", "errors" FROM (` + failures + `) WHERE ("events" > 0 OR "completions" > 0 OR "errors" > 0)
				AND $timeFilter GROUP BY ` + byProbe},
			{prom: failed("lost_events")}, {prom: failed("lost_completions")}, {prom: failed("errors")},
		},
	}, b.toRow(), append(b.placed(), column{name: "device"}, column{name: "port"}, column{name: "vector"},
		column{name: "events", prom: "Value #A", title: "lost events"}, column{name: "completions", prom: "Value #B", title: "lost completions"},
		column{name: "errors", prom: "Value #C"})...)
	b.first(100)
	b.slowProbes()
}

// placed are the columns that say where a device is. Only the queries for Prometheus have the labels of places.
func (b *board) placed() []column {
	var all []column
	for _, label := range b.options.Labels {
		all = append(all, column{name: none, prom: label})
	}
	return append(all, column{name: "host"}, column{name: "instance"})
}

func slowLinks(value string) string {
	return `max by (PLACE, host, plugin_instance, device, port) (` + value + `{FILTER} and on (host, plugin_instance, device, port)
		(rdma_port_rate_bytes_per_second{FILTER} < rdma_port_rate_best_bytes_per_second{FILTER})
		and on (host, plugin_instance, device, port) rdma_port_up{FILTER} == 1) * 8`
}

func failed(field string) string {
	return `round(sum by (PLACE, host, plugin_instance, device, port, vector) (increase(rdma_cq_probe_` + field + `_total{FILTER}[$__range]))) > 0`
}

// silentHosts adds a table of the hosts with the oldest last reports. Grafana sorts
// it, because InfluxQL cannot sort by the time of a last point.
func (b *board) silentHosts() {
	b.table(panel{
		id: 9, title: "Hosts by last report", width: 6, height: 8,
		help: help{
			"The twenty hosts of the last day that have not reported for longest.",
			"nothing; a report older than some minutes is a silent host.",
			"is the host up? Does Telegraf run there? Its log has the plugin's messages.",
			"hosts that have been silent for more than a day.",
		},
		queries: []query{
			{text: `SELECT last("uptime_ns") AS "uptime" FROM {rdma_collector} WHERE {filter} GROUP BY ` + byHost},
			{prom: `topk(20, time() - max by (PLACE, host, plugin_instance) (timestamp(rdma_collector_uptime_seconds{FILTER})
				or max_over_time(timestamp(rdma:collector_uptime_seconds:max5m{FILTER})[1d:5m])))`},
		},
	}, nil, append(b.placed(), column{name: "Time", prom: none, title: "last report"},
		column{name: "uptime", prom: none, unit: b.names.unit("rdma_collector.uptime_ns")},
		column{name: none, prom: "Value", title: "time since last report", unit: "ns"})...)
	b.over("1d")
	if b.engine == Prometheus {
		return // topk has sorted them
	}
	b.first(20, grafana.Transform{ID: "sortBy", Options: map[string]any{"sort": []map[string]any{{"field": "Time", "desc": false}}}})
}

// restarted is the end of the text about what the tables of counters cannot see.
const restarted = "; after a restart of the plugin within the range, what came before it."

func (b *board) slowProbes() {
	b.table(panel{
		id: 15, title: "Slow probes", width: 6, height: 8, now: true,
		help: help{
			"The ten devices with the greatest 99th percentile of wake-up latency, now.",
			"nothing; compare the first with the last.",
			"follow the device's link and compare with its own past; look at interrupts' CPUs and power states.",
			"cable and fabric.",
		},
		queries: []query{{text: `SELECT top("p99", ` + byDevice + `, 10) AS "p99" FROM (SELECT max("wake_ns_p99") AS "p99"
			FROM {rdma_cq_probe} WHERE {filter} GROUP BY ` + byDevice + `) WHERE $timeFilter`,
			prom: `topk(10, max by (PLACE, host, plugin_instance, device) (rdma_cq_probe_wake_p99_seconds{FILTER}))`}},
	}, b.toRow(), append(b.placed(), column{name: "device"},
		column{name: "p99", prom: "Value", title: "p99", unit: b.names.unit("rdma_cq_probe.wake_ns_p99")})...)
}
