package gen

import "rdma_events/assets/grafana"

func (b *board) overviewHistory() {
	b.series(panel{
		id: 18, title: "Hosts by trouble", width: 12, height: 9,
		help: help{
			"Number of hosts with a port down, a device missing, a device not watched or a command stuck in each interval.",
			"nothing; a step up is an outage.",
			"look at the tables above for names.",
			"which hosts; a host with two faults counts in both lines.",
		},
		queries: []query{
			{alias: "port down", text: hostsWith("ports_down"), prom: hostsThatHad("ports_down")},
			{alias: "device missing", text: hostsWith("devices_missing"), prom: hostsThatHad("devices_missing")},
			{alias: "device not watched", text: hostsWith("devices_unwatched"), prom: hostsThatHad("devices_unwatched")},
			{alias: "command stuck", text: hostsWith("commands_stuck"), prom: hostsThatHad("commands_stuck")},
		},
	}, bars)
	b.history(panel{
		id: 36, title: "Drops by host", width: 12, height: 9,
		help: help{
			"port_err events per host in each interval.",
			"that links dropped; many hosts at the same time point to a switch.",
			"follow the host in the tables above.",
			"hosts without a drop, which have no line.",
		},
		queries: []query{{
			alias: "$tag_host",
			text: `SELECT sum("count") AS "drops" FROM {rdma_async_event} WHERE {filter} AND "event" = 'port_err'
				GROUP BY time($__interval), "host" fill(none)`,
			prom: `sum by (host) (increase(rdma_async_events_total{FILTER,event="port_err"}[$__interval])) > 0.5`,
		}},
	})
	b.series(panel{
		id: 19, title: "Events by type", width: 12, height: 9, recorded: true,
		help: help{
			"Asynchronous events that were read on all devices, in each interval.",
			"nothing; many `port_err` and `port_active` events mean flaps, many `client_reregister` and `sm_change` events point to a subnet manager.",
			"check the ports that flap, or the subnet manager.",
			"events of applications' queue pairs and queues, which reach only their owners.",
		},
		queries: []query{{alias: "$tag_event", text: `SELECT sum("count") AS "events" FROM {rdma_async_event}
			WHERE {filter} GROUP BY time($__interval), "event" fill(0)`,
			prom: `sum by (event) (sum_over_time(rdma:async_events:increase5m{FILTER}[$__interval]))`}},
	}, bars)
	b.series(panel{
		id: 20, title: "Port changes", width: 12, height: 9,
		help: help{
			"State changes of ports, by the new state.",
			"nothing; many at once point to a switch or a subnet manager.",
			"look at the ports that flap.",
			"changes while no plugin ran; changes that were merged into one point count for its last state.",
		},
		queries: []query{{alias: "to $tag_state_to", text: `SELECT sum("transitions") AS "changes" FROM {rdma_port_change}
			WHERE {filter} GROUP BY time($__interval), "state_to" fill(0)`},
			{alias: "changes", prom: `sum(increase(rdma_port_transitions_total{FILTER}[$__interval]))`}},
	}, bars)
}

// hostsWith returns the query that counts, in each interval, the hosts on which a count was above 0: ceil(n/(n+1)) is 1 for every such n.
// The 1.0 makes the share a fraction: an outer query of InfluxDB 1.8 takes the quotient of two integers for an integer, and cuts it to 0.
func hostsWith(field string) string {
	return `SELECT sum("bad") AS "hosts" FROM (SELECT ceil("share") AS "bad" FROM (SELECT max("` + field + `") / (max("` + field + `") + 1.0) AS "share"
		FROM {rdma_host} WHERE {filter} GROUP BY time($__interval), "host" fill(none)))
		WHERE $timeFilter GROUP BY time($__interval) fill(none)`
}

// hostsThatHad asks Prometheus the same.
func hostsThatHad(field string) string {
	return "sum(max by (host) (" + inInterval("max", "rdma_host_"+field+"{FILTER}") + ") > bool 0)"
}

func (b *board) overviewWorst() {
	b.table(panel{
		id: 12, title: "Flappers of 7 days", width: 8, height: 8,
		help: help{
			"The ten ports that flapped most often within 7 days.",
			nothing + "; every row is a port that has flapped.",
			"follow the device's link; for a single port check cable and transceiver, for all ports of a switch the switch.",
			"flaps less than 5 ms apart, and flaps while no plugin ran.",
		},
		queries: []query{{
			text: `SELECT top("flaps", ` + byDevice + `, "port", 10) AS "flaps" FROM (SELECT sum("transitions") AS "flaps" FROM {rdma_port_change}
				WHERE {filter} AND "state_to" = 'active' AND "state_from" != 'absent' GROUP BY ` + byPort + `) WHERE $timeFilter`,
			prom: `topk(10, sum by (PLACE, host, plugin_instance, device, port) (sum_over_time(rdma:port_flaps:increase5m{FILTER}[7d])))`,
		}},
	}, b.toRow(), b.placed(column{name: "port"}, column{name: "flaps", prom: "Value", title: "flaps", bad: true})...)
	b.over("7d")
	b.slowProbes()
	b.slowCommands()
	b.table(panel{
		id: 37, title: "Boards, firmware, drivers", width: 12, height: 8, now: true,
		help: help{
			"Number of devices with each board, firmware and driver, rarest first.",
			nothing + "; check a single device whose firmware differs from the others.",
			"compare with your inventory.",
			"devices that were not opened yet.",
		},
		queries: []query{{
			text: `SELECT last("board_id") AS "board", last("fw_ver") AS "firmware", last("driver") AS "driver", last("present") AS "devices"
				FROM {rdma_device} WHERE {filter} GROUP BY ` + byDevice,
			prom: `sort(count by (board_id, fw_ver, driver) (rdma_device_info{FILTER} == 1))`,
		}},
	}, nil, column{name: "board", prom: "board_id", title: "board"}, column{name: "firmware", prom: "fw_ver", title: "firmware"}, column{name: "driver"},
		column{name: "devices", prom: "Value", title: "devices"})
	b.counting("devices", "board", "firmware", "driver")
	b.table(panel{
		id: 38, title: "Rates", width: 12, height: 8, now: true,
		help: help{
			"Number of active ports with each rate, rarest first.",
			nothing + "; check a single port whose rate differs from the others.",
			"the panel Links slow lists ports that should be faster.",
			"ports that are down.",
		},
		queries: []query{{
			text: `SELECT ` + lastOf("rate", "up") + ` FROM (SELECT last("rate_gbps") AS "rate", ` + lastOf("up") + ` FROM {rdma_port}
				WHERE {filter} GROUP BY ` + byPort + `) WHERE "up" = 1 AND $timeFilter GROUP BY ` + byPort,
			prom: `sort(count_values("rate", rdma_port_rate_bytes_per_second{FILTER} * 8 and rdma_port_up{FILTER} == 1))`,
		}},
	}, nil, column{name: "rate", unit: "Gbits"}, column{name: "up", prom: "Value", title: "ports"})
	b.counting("up", "rate")
}

// counting makes InfluxDB's rows into one for each combination of values, with their number. Prometheus counts itself.
func (b *board) counting(count string, by ...string) {
	if b.engine == Prometheus {
		return
	}
	fields := map[string]any{count: map[string]any{"operation": "aggregate", "aggregations": []string{"count"}}}
	for _, name := range by {
		fields[name] = map[string]any{"operation": "groupby", "aggregations": []string{}}
	}
	t := b.last().Transformations
	organize := t[len(t)-1].Options
	organize["indexByName"].(map[string]any)[count+" (count)"] = len(by)
	organize["renameByName"].(map[string]any)[count+" (count)"] = map[string]string{"devices": "devices", "up": "ports"}[count]
	b.last().Transformations = append([]grafana.Transform{
		{ID: "groupBy", Options: map[string]any{"fields": fields}},
		sortedBy(count+" (count)", false),
	}, t...)
}

// latestCauses adds a table of the triggers whose cause is certain.
func (b *board) latestCauses() {
	if !b.hasMoments() {
		return
	}
	b.table(panel{
		id: 44, title: "Causes", width: 24, height: 8,
		help: help{
			"The last 100 triggers in the dashboard's range whose cause is certain. The counters are the ones that changed most since the previous reading.",
			"nothing.",
			"one cause on many hosts at the same time points to a switch, a subnet manager or a rollout; docs/reference/causes.md explains each cause.",
			"triggers without a certain cause: the Device dashboard has them too.",
		},
		queries: []query{{text: `SELECT "cause", "ext_state", "top", ` + byPort + `, "trigger" FROM {rdma_evidence}
			WHERE {filter} AND "cause" != '' ORDER BY time DESC LIMIT 100`, logs: &logQuery{"rdma_evidence", []string{`cause!=""`}}}},
	}, b.toRow(), append([]column{{name: "Time"}}, b.placed(column{name: "port"}, column{name: "trigger"}, column{name: "cause"},
		column{name: "ext_state", title: "link"}, column{name: "top", title: "counters that moved"})...)...)
	b.first(100, sortedBy("Time", true))
}

func (b *board) overviewPlugin() {
	b.series(panel{
		id: 26, title: "Workers", width: 8, height: 8,
		help: help{
			"Restarts of worker processes, and workers that were killed and have not ended.",
			"nothing; occasional restarts do no harm, many restarts for one device point to a broken library or device.",
			"the log of Telegraf names the device, the signal and the verbs call.",
			"which device: the Device dashboard does.",
		},
		queries: []query{
			counterQuery("restarts", "worker_restarts", "rdma_collector", ""),
			{alias: "stuck", text: `SELECT sum("stuck") AS "stuck" FROM (SELECT max("workers_stuck") AS "stuck" FROM {rdma_collector}
				WHERE {filter} GROUP BY time($__interval), ` + byHost + ` fill(none)) WHERE $timeFilter GROUP BY time($__interval) fill(none)`,
				prom: `sum(rdma_collector_workers_stuck{FILTER})`},
		},
	}, bars)
	b.series(panel{
		id: 27, title: "Points merged, dropped, intervals skipped", width: 8, height: 8,
		help: help{
			"Points that were merged because there were more than `max_event_points`, points that were not emitted before a " +
				"shutdown, and intervals that Telegraf did not read " +
				"in time; and happenings that went into the evidence about another one, since a port has one a second and ten a minute.",
			"nothing; merging loses no event, skipped intervals mean that Telegraf or its outputs are slow.",
			"look at Telegraf's own metrics; raise `metric_buffer_limit` or the interval.",
			"what Telegraf itself drops.",
		},
		queries: []query{
			counterQuery("merged", "merged_points", "rdma_collector", ""),
			counterQuery("dropped", "dropped_points", "rdma_collector", ""),
			counterQuery("skipped", "skipped_intervals", "rdma_collector", ""),
			counterQuery("evidence merged", "evidence_merged", "rdma_collector", ""),
		},
	}, bars)
	b.series(panel{
		id: 43, title: "Recorder", width: 8, height: 8,
		help: help{
			"Records that the plugins wrote to their hosts' disks, failed writes, and records that were never written.",
			"that there are failures; `rdma-events events` of such a host may have a gap, which it names. No metric is missing.",
			"the plugin's log on the host has the cause: no space, a read-only or slow disk.",
			"which host, and plugins that record nothing, for lack of a directory.",
		},
		queries: []query{
			counterQuery("recorded", "recorded", "rdma_collector", ""),
			counterQuery("failed writes", "record_errors", "rdma_collector", ""),
			counterQuery("lost records", "record_lost", "rdma_collector", ""),
		},
	}, bars)
	b.series(panel{
		id: 28, title: "Memory", width: 12, height: 8, unit: b.names.unit("rdma_collector.rss_bytes"),
		help: help{
			"Resident memory of the plugin, and of all its workers together, on the host where it is greatest.",
			"nothing; a line that rises for days is a leak.",
			"restart Telegraf on that host and report it.",
			"which host.",
		},
		queries: []query{
			{alias: "plugin", text: `SELECT max("rss_bytes") AS "rss" FROM {rdma_collector} WHERE {filter} GROUP BY time($__interval) fill(none)`,
				prom: `max(rdma_collector_rss_bytes{FILTER})`},
			{alias: "workers", text: `SELECT max("worker_rss_bytes") AS "rss" FROM {rdma_collector} WHERE {filter} GROUP BY time($__interval) fill(none)`,
				prom: `max(rdma_collector_worker_rss_bytes{FILTER})`},
		},
	}, lines)
	b.series(panel{
		id: 39, title: "Delivery", width: 12, height: 8, unit: b.names.unit("rdma_collector.delivery_ns_p99"),
		help: help{
			"From the return of ibv_get_async_event in a worker to the plugin, on the host where it is greatest.",
			nothing + "; milliseconds are a host without a CPU to spare.",
			"compare with the host's load.",
			"the way from the plugin to the database.",
		},
		queries: []query{
			{alias: "p50", text: `SELECT max("delivery_ns_p50") AS "p50" FROM {rdma_collector} WHERE {filter} GROUP BY time($__interval) fill(none)`,
				prom: `max(rdma_collector_delivery_p50_seconds{FILTER})`},
			{alias: "p99", text: `SELECT max("delivery_ns_p99") AS "p99" FROM {rdma_collector} WHERE {filter} GROUP BY time($__interval) fill(none)`,
				prom: `max(rdma_collector_delivery_p99_seconds{FILTER})`},
		},
	}, lines)
}
