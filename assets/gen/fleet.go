package gen

import (
	"rdma_events/assets/grafana"
)

// fleetPoints is how many points in time a panel of the fleet has. Each point is
// computed from a series per device, so more points would cost seconds without
// showing more.
const fleetPoints = 60

func fleetDashboard(n *names, o *Options) *grafana.Dashboard {
	b := &board{names: n, recent: short(o.recent()), filter: `$timeFilter AND "host" =~ /^$host$/`, points: fleetPoints}
	b.row("Now")
	b.fleetCounts()
	b.row("What is wrong, worst first")
	b.fleetTables()
	b.row("Hosts and links over time")
	b.fleetHistory()
	b.row("Probes")
	b.fleetProbes()
	b.row("The plugin itself")
	b.fleetPlugin()
	return dashboard(fleetUID, "RDMA fleet",
		"RDMA devices of many hosts: counts and the worst of them. A line per host there is none.", "1m",
		[]grafana.Link{link("Device", deviceUID, "One device of one host")},
		append(places(o), some("host", "Host", "rdma_collector", "host", "")), b.panels)
}

func (b *board) fleetCounts() {
	const width, height = 4, 4
	red := thresholds("green", level{1, "red"})
	b.stat(panel{
		title: "Hosts of the last day", width: width, height: height,
		help: help{
			"Hosts whose plugin has sent something within the last day. One with several instances counts as several.",
			"that there is none.",
			"compare with how many there should be, and with the next panel.",
			"hosts that never reported.",
		},
		queries: []query{{text: reporting}},
	}, "0", thresholds("red", level{1, "green"}))
	b.last().TimeFrom = "1d"
	b.stat(panel{
		title: "Hosts reporting", width: width, height: height, now: true,
		help: help{
			"Hosts whose plugin has sent something within the last minutes. One with several instances counts as several.",
			"that no host reports at all. Fewer than in the panel before: hosts have gone silent.",
			"the table of silent hosts names them. Is the host up? Does Telegraf run there?",
			"hosts that never reported.",
		},
		queries: []query{{text: reporting}},
	}, "0", thresholds("red", level{1, "green"}))
	b.stat(panel{
		title: "Ports down", width: width, height: height, now: true,
		help: help{
			"Ports that are not active, but for those of `expected_down`.",
			"that a cable, a switch port or a subnet manager is gone.",
			"the table below names them, the longest first.",
			"ports of hosts that are silent, and of devices that are missing or not open.",
		},
		queries: []query{{text: now("ports_down")}},
	}, "0", red)
	b.stat(panel{
		title: "Devices missing", width: width, height: height, now: true,
		help: help{
			"Devices that were there since the plugin started, or are in its `expect`, and are not now.",
			"a card that fell off the bus, a driver that was unloaded, a virtual function that was taken away.",
			"look at `rdma link` and the kernel log of the host.",
			"devices that were missing before the plugin started, unless they are in `expect`.",
		},
		queries: []query{{text: now("devices_missing")}},
	}, "0", red)
	b.stat(panel{
		title: "Devices not watched", width: width, height: height, now: true,
		help: help{
			"Devices that are there and that no worker has open.",
			"that an event there would go unnoticed.",
			"the column reason of the table below says what is in the way; the README has a line for each.",
			"why: the plugin's log does.",
		},
		queries: []query{{text: now("devices_unwatched")}},
	}, "0", red)
	b.stat(panel{
		title: "Worst wake-up p99", width: width, height: height, now: true, unit: b.names.unit("rdma_cq_probe.wake_ns_p99"),
		help: help{
			"The greatest of all probes' 99th percentiles of wake-up latency.",
			"10 ms and more: applications that sleep for completions wait as long.",
			"find the device in the table of slow probes; look at its interrupts' CPUs and their power states.",
			"cable and fabric: a probe's queue pair is connected to itself.",
		},
		queries: []query{{text: `SELECT max("wake_ns_p99") AS "p99" FROM {rdma_host} WHERE {filter}`}},
	}, "-", thresholds("green", level{1e6, "yellow"}, level{1e7, "red"}))
}

// now returns the query for the sum of each plugin's last value of a field.
func now(field string) string {
	return `SELECT sum("n") AS "sum" FROM (SELECT last("` + field + `") AS "n" FROM {rdma_host} WHERE {filter} GROUP BY ` + byHost + `)
		WHERE $timeFilter`
}

// reporting counts hosts. A host with several instances counts once for each. InfluxDB finds the last point of a series
// without reading the others.
const reporting = `SELECT count("uptime") AS "hosts" FROM (SELECT last("uptime_ns") AS "uptime"
	FROM {rdma_collector} WHERE {filter} GROUP BY ` + byHost + `) WHERE $timeFilter`

func (b *board) last() *grafana.Panel { return &b.panels[len(b.panels)-1] }

// first limits the last table to its first rows, after other transformations.
func (b *board) first(rows int, before ...grafana.Transform) {
	limit := grafana.Transform{ID: "limit", Options: map[string]any{"limitField": rows}}
	b.last().Transformations = append(append(before, limit), b.last().Transformations...)
}

// fleetTables adds tables. If a row has several fields, the outer query also groups
// by the series. Otherwise InfluxDB 1.8 puts fields of different series into one
// row if some series lack a field.
func (b *board) fleetTables() {
	b.silentHosts()
	b.table(panel{
		title: "Ports down", width: 8, height: 8, now: true,
		help: help{
			"Up to 100 ports that are not active now. Age is how long they have been in this state, as far as the plugin has seen.",
			"nothing; every row is an outage.",
			"follow the device's link; look at the cable, the switch port and, on InfiniBand, the subnet manager.",
			"ports of silent hosts and missing devices; ports of `expected_down`, by intent.",
		},
		queries: []query{{text: `SELECT "state_age_ns", "up" FROM (SELECT last("up") AS "up",
			last("state_age_ns") AS "state_age_ns" FROM {rdma_port} WHERE {filter} AND "expected" != 'down'
			GROUP BY ` + byPort + `) WHERE "up" = 0 AND $timeFilter GROUP BY ` + byPort}},
	}, deviceLink, column{name: "host"}, column{name: "instance"}, column{name: "device"}, column{name: "port"},
		column{name: "state_age_ns", title: "age", unit: b.names.unit("rdma_port.state_age_ns")}, column{name: "up"})
	b.first(100)
	b.table(panel{
		title: "Devices missing or not watched", width: 8, height: 8, now: true,
		help: help{
			"Up to 100 devices that no worker has open.",
			"nothing; every row is a device that no worker watches.",
			"the README says for each reason what to do.",
			"devices of silent hosts.",
		},
		queries: []query{{text: `SELECT "present", "worker_state", "reason" FROM (SELECT last("open") AS "open",
			last("present") AS "present", last("worker_state") AS "worker_state", last("reason") AS "reason"
			FROM {rdma_device} WHERE {filter} GROUP BY ` + byDevice + `)
			WHERE "open" = 0 AND $timeFilter AND "reason" != 'renamed' AND "reason" != 'reassigned' GROUP BY ` + byDevice}},
	}, deviceLink, column{name: "host"}, column{name: "instance"}, column{name: "device"}, column{name: "present"},
		column{name: "worker_state", title: "worker"}, column{name: "reason"})
	b.first(100)
	b.top("Ports that flap", "flaps", "rdma_port", "port", help{
		"The ten ports with the most flaps (active, not active, active again) in the dashboard's range.",
		"a flap.",
		"follow the device's link; a single port: cable, transceiver; all ports of a switch: the switch.",
		"flaps closer together than 5 ms, and what happened while no plugin ran",
	})
	b.top("Lost events", "lost_events", "rdma_cq_probe", "vector", help{
		"The ten completion vectors with the most probe rounds whose completion came without its event.",
		"a lost event: an application that sleeps for completions would have slept on.",
		"look at that vector's line in /proc/interrupts and its affinity.",
		"applications' own queues",
	})
	b.top("Lost completions", "lost_completions", "rdma_cq_probe", "port", help{
		"The ten ports with the most probe rounds that got no completion at all.",
		"a lost completion: the device's own data path does not work.",
		"look at the kernel log and the device's counters; reset or replace it.",
		"the fabric: the probe's queue pair is connected to itself",
	})
	b.slowProbes()
}

// silentHosts adds a table of the hosts with the oldest last reports. Grafana sorts
// it, because InfluxQL cannot sort by the time of a last point.
func (b *board) silentHosts() {
	b.table(panel{
		title: "Hosts by last report", width: 8, height: 8,
		help: help{
			"The twenty hosts of the last day that have not reported for longest.",
			"nothing; a report older than some minutes is a silent host.",
			"is the host up? Does Telegraf run there? Its log has the plugin's messages.",
			"hosts that have been silent for more than a day.",
		},
		queries: []query{{text: `SELECT last("uptime_ns") AS "uptime" FROM {rdma_collector} WHERE {filter} GROUP BY ` + byHost}},
	}, "", column{name: "host"}, column{name: "instance"}, column{name: "Time", title: "last report"},
		column{name: "uptime", unit: b.names.unit("rdma_collector.uptime_ns")})
	b.last().TimeFrom = "1d"
	b.first(20, grafana.Transform{ID: "sortBy", Options: map[string]any{"sort": []map[string]any{{"field": "Time", "desc": false}}}})
}

// restarted is the end of the text about what the tables of counters cannot see.
const restarted = "; after a restart of the plugin within the range, the lesser of what came before and after it."

// top adds a table of the ten greatest increases of a counter, by device and one
// more tag.
func (b *board) top(title, field, measurement, tag string, h help) {
	h.blind += restarted
	b.table(panel{
		title: title, width: 6, height: 8, help: h,
		queries: []query{{text: `SELECT top("` + field + `", ` + byDevice + `, "` + tag + `", 10) AS "` + field + `" FROM (` + grown(field, measurement) +
			`) WHERE $timeFilter`}},
	}, deviceLink, column{name: "host"}, column{name: "instance"}, column{name: "device"}, column{name: tag}, column{name: field, title: "count", red: true})
}

func (b *board) slowProbes() {
	b.table(panel{
		title: "Slow probes", width: 6, height: 8, now: true,
		help: help{
			"The ten devices with the greatest 99th percentile of wake-up latency, now.",
			"nothing; compare the first with the last.",
			"follow the device's link and compare with its own past; look at interrupts' CPUs and power states.",
			"cable and fabric.",
		},
		queries: []query{{text: `SELECT top("p99", ` + byDevice + `, 10) AS "p99" FROM (SELECT max("wake_ns_p99") AS "p99"
			FROM {rdma_cq_probe} WHERE {filter} GROUP BY ` + byDevice + `) WHERE $timeFilter`}},
	}, deviceLink, column{name: "host"}, column{name: "instance"}, column{name: "device"},
		column{name: "p99", unit: b.names.unit("rdma_cq_probe.wake_ns_p99")})
}

func (b *board) fleetHistory() {
	b.series(panel{
		title: "Hosts over time", width: 6, height: 9,
		help: help{
			"How many hosts report. One with several instances counts as several.",
			"nothing; a step down is hosts gone silent.",
			"look at the table of last reports for names.",
			"which hosts.",
		},
		queries: []query{{alias: "reporting", text: `SELECT count("uptime") AS "hosts" FROM (SELECT last("uptime_ns") AS "uptime"
			FROM {rdma_collector} WHERE {filter} GROUP BY time($__interval), ` + byHost + ` fill(none))
			WHERE $timeFilter GROUP BY time($__interval) fill(none)`}},
	}, lines, nil)
	b.series(panel{
		title: "Hosts by trouble", width: 9, height: 9,
		help: help{
			"How many hosts have a port down, a device missing or a device not watched.",
			"nothing; a step up is an outage.",
			"look at the tables above for names.",
			"which hosts; a host with two troubles counts in both lines.",
		},
		queries: []query{
			{alias: "port down", text: hostsWith("ports_down")},
			{alias: "device missing", text: hostsWith("devices_missing")},
			{alias: "device not watched", text: hostsWith("devices_unwatched")},
		},
	}, lines, nil)
	b.series(panel{
		title: "Events by type", width: 9, height: 9, unit: "cps",
		help: help{
			"Asynchronous events that were read on all devices, per second.",
			"nothing; many `port_err` and `port_active` are flaps, a wave of `client_reregister` and `sm_change` is a subnet manager.",
			"look at the ports that flap, or at the subnet manager.",
			"events of applications' queue pairs and queues: they reach only who owns them.",
		},
		queries: []query{{alias: "$tag_event", text: `SELECT sum("count") * 1000 / $__interval_ms AS "rate" FROM {rdma_async_event}
			WHERE {filter} GROUP BY time($__interval), "event" fill(0)`}},
	}, bars, nil)
	b.series(panel{
		title: "Port changes", width: 12, height: 8,
		help: help{
			"Transitions of ports, by the state that they ended in.",
			"nothing; many at once are a switch or a subnet manager.",
			"look at the ports that flap.",
			"changes while no plugin ran; several that were merged into one point stand under its last state.",
		},
		queries: []query{{alias: "to $tag_state_to", text: `SELECT sum("transitions") AS "changes" FROM {rdma_port_change}
			WHERE {filter} GROUP BY time($__interval), "state_to" fill(0)`}},
	}, bars, nil)
	b.series(panel{
		title: "Flaps", width: 12, height: 8,
		help: help{
			"Flaps of all ports in each interval.",
			"nothing; a fleet at rest has none.",
			"look at the ports that flap.",
			"flaps closer together than 5 ms.",
		},
		queries: []query{{alias: "flaps", text: sum("flaps", "rdma_host", "", "time($__interval) fill(0)")}},
	}, bars, nil)
}

// hostsWith returns the query that counts, in each interval, the hosts on which a
// count was above 0: ceil(n/(n+1)) is 1 for every such n.
func hostsWith(field string) string {
	return `SELECT sum("bad") AS "hosts" FROM (SELECT ceil(max("` + field + `") / (max("` + field + `") + 1)) AS "bad" FROM {rdma_host}
		WHERE {filter} GROUP BY time($__interval), "host" fill(none))
		WHERE $timeFilter GROUP BY time($__interval) fill(none)`
}

func (b *board) fleetProbes() {
	b.series(panel{
		title: "Wake-up p99", width: 12, height: 8, unit: b.names.unit("rdma_cq_probe.wake_ns_p99"),
		help: help{
			"The 99th percentile of the slowest probe of each host: the greatest of them, and their mean.",
			"the dashed line: 10 ms.",
			"look at the table of slow probes; if the mean rises too, something common has changed: kernel, power governor, load.",
			"cable and fabric.",
		},
		queries: []query{
			{alias: "worst", text: `SELECT max("wake_ns_p99") AS "p99" FROM {rdma_host} WHERE {filter} GROUP BY time($__interval) fill(none)`},
			{alias: "mean", text: `SELECT mean("wake_ns_p99") AS "p99" FROM {rdma_host} WHERE {filter} GROUP BY time($__interval) fill(none)`},
		},
	}, lines, thresholds("transparent", level{1e7, "red"}))
	b.series(panel{
		title: "Lost events against lost completions", width: 12, height: 8,
		help: help{
			"Probe rounds that failed in each interval: the completion was there and its event did not come, or neither came.",
			"nothing; at rest both are 0.",
			"lost events: interrupts; lost completions: the device itself. The tables above have the names.",
			"applications' own queues.",
		},
		queries: []query{
			{alias: "lost events", text: sum("lost_events", "rdma_host", "", "time($__interval) fill(0)")},
			{alias: "lost completions", text: sum("lost_completions", "rdma_host", "", "time($__interval) fill(0)")},
			{alias: "errors", text: sum("errors", "rdma_host", "", "time($__interval) fill(0)")},
		},
	}, bars, nil)
}

func (b *board) fleetPlugin() {
	b.series(panel{
		title: "Workers", width: 8, height: 8,
		help: help{
			"Worker processes that had to be started again, and those that the kernel does not let die.",
			"nothing; restarts now and then are survived, many of one device are a broken library or device.",
			"the log of Telegraf names the device, the signal and the verbs call.",
			"which device: the Device dashboard does.",
		},
		queries: []query{
			{alias: "restarts", text: sum("worker_restarts", "rdma_collector", "", "time($__interval) fill(0)")},
			{alias: "stuck", text: `SELECT sum("stuck") AS "stuck" FROM (SELECT max("workers_stuck") AS "stuck" FROM {rdma_collector}
				WHERE {filter} GROUP BY time($__interval), ` + byHost + ` fill(none)) WHERE $timeFilter GROUP BY time($__interval) fill(none)`},
		},
	}, bars, nil)
	b.series(panel{
		title: "Points merged, dropped, intervals skipped", width: 8, height: 8,
		help: help{
			"Points that were merged because more came than `max_event_points`, points that a shutdown cut off, and intervals that Telegraf did not read in time.",
			"nothing; merging loses no event, skipped intervals mean that Telegraf or its outputs are slow.",
			"look at Telegraf's own metrics; raise `metric_buffer_limit` or the interval.",
			"what Telegraf itself drops.",
		},
		queries: []query{
			{alias: "merged", text: sum("merged_points", "rdma_collector", "", "time($__interval) fill(0)")},
			{alias: "dropped", text: sum("dropped_points", "rdma_collector", "", "time($__interval) fill(0)")},
			{alias: "skipped", text: sum("skipped_intervals", "rdma_collector", "", "time($__interval) fill(0)")},
		},
	}, bars, nil)
	b.series(panel{
		title: "Memory", width: 8, height: 8, unit: b.names.unit("rdma_collector.rss_bytes"),
		help: help{
			"Resident memory of the plugin, and of all its workers together, on the host where it is greatest.",
			"nothing; a line that rises for days is a leak.",
			"restart Telegraf on that host and report it.",
			"which host.",
		},
		queries: []query{
			{alias: "plugin", text: `SELECT max("rss_bytes") AS "rss" FROM {rdma_collector} WHERE {filter} GROUP BY time($__interval) fill(none)`},
			{alias: "workers", text: `SELECT max("worker_rss_bytes") AS "rss" FROM {rdma_collector} WHERE {filter} GROUP BY time($__interval) fill(none)`},
		},
	}, lines, nil)
}
