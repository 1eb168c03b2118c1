package gen

import (
	"fmt"
	"slices"

	"rdma_events/assets/grafana"
)

// problemTables adds a table for each kind of problem. If a row has several fields, the outer query also groups by the series.
// Otherwise InfluxDB 1.8 puts fields of different series into one row if some series lack a field.
//
// InfluxDB 1.8 evaluates a subquery again for each function whose field it has, with all
// its columns. So what is slow to find has a subquery of its own. The first of several
// subqueries decides on the type of a column, and without the column it is for
// fractions: other numbers of the later ones are left out. Hence the factors of 1.0.
func (b *board) problemTables() {
	b.table(panel{
		id: 10, title: "Ports down", width: 8, height: 8, now: true,
		help: help{
			"Up to 100 ports that should be active (`expected_up`) but are not. Age is the time in this state, as far as the plugin knows.",
			"nothing; every row is an outage.",
			"follow the device's link; check the cable, the switch port and, on InfiniBand, the subnet manager.",
			"ports of silent hosts and missing devices; ports that need not be active, such as unused ports and ports of `expected_down`.",
		},
		queries: []query{
			{text: `SELECT ` + lastOf("state_age_ns", "up") + ` FROM (SELECT last("up") AS "up",
				last("state_age_ns") AS "state_age_ns" FROM {rdma_port} WHERE {filter} AND "expected_up" = 1
				GROUP BY ` + byPort + `) WHERE "up" = 0 AND $timeFilter GROUP BY ` + byPort},
			{prom: `max by (PLACE, host, plugin_instance, device, port) (rdma_port_up{FILTER} == 0 and rdma_port_expected_up{FILTER} == 1)`},
			{prom: `max by (PLACE, host, plugin_instance, device, port) (rdma_port_state_age_seconds{FILTER}
				and on (host, plugin_instance, device, port) (rdma_port_up{FILTER} == 0 and rdma_port_expected_up{FILTER} == 1))`},
		},
	}, b.toRow(), b.placed(column{name: "port"}, column{name: "state_age_ns", prom: "Value #B", title: "age", unit: b.names.unit("rdma_port.state_age_ns")},
		column{name: "up", prom: "Value #A", hidden: true})...)
	b.first(100)
	b.table(panel{
		id: 11, title: "Devices missing or not watched", width: 8, height: 8, now: true,
		help: help{
			"Up to 100 devices that no worker has open. Age is the time since then, within the last day.",
			nothing + "; every row is a device that no worker watches.",
			"docs/how-to/troubleshooting.md says what to do for each reason.",
			"devices of silent hosts, devices in the network namespace of a pod (other_netns), and devices that nothing can open (unwatchable).",
		},
		queries: []query{
			// The reason is there twice, so that the one that is shown does not have the ages evaluated.
			{text: `SELECT last("why") AS "reason", ` + lastOf("age", "present", "worker_state") + ` FROM
				(SELECT last("reason") AS "why", ` + lastOf("open", "reason", "present", "worker_state") + `
				FROM {rdma_device} WHERE {filter} AND RECENT GROUP BY ` + byDevice + `),
				(SELECT ` + lastOf("open", "reason") + `, max("age") * 1.0 AS "age" FROM (SELECT ` + lastOf("open", "reason") + `, last("open") * 0 AS "age"
				FROM {rdma_device} WHERE {filter} AND RECENT GROUP BY ` + byDevice + `), (` + unwatched + `) WHERE $timeFilter GROUP BY ` + byDevice + `)
				WHERE "open" = 0 AND "reason" != 'renamed' AND "reason" != 'reassigned'
				AND "reason" != 'deleted' AND "reason" != 'other_netns' AND "reason" != 'unwatchable' AND $timeFilter GROUP BY ` + byDevice},
			{prom: `max by (PLACE, host, plugin_instance, device, worker_state, reason)
				(rdma_device_status{FILTER,reason!~"renamed|reassigned|deleted|other_netns|unwatchable"} == 1
				and on (host, plugin_instance, device) rdma_device_open{FILTER} == 0)`},
			{prom: `max by (PLACE, host, plugin_instance, device) (time() - rdma:device_unwatched:since{FILTER}
				unless on (host, plugin_instance, device) rdma_device_status{reason=~"renamed|reassigned|deleted|other_netns|unwatchable"} == 1)`},
		},
	}, b.toRow(), b.placed(column{name: "reason"}, column{name: "age", prom: "Value #B", title: "age", unit: "ns"},
		column{name: "present", prom: none}, column{name: none, prom: "Value #A", hidden: true}, column{name: "worker_state", title: "worker"})...)
	b.over("1d")
	b.unknownAge("a day or more")
	b.first(100)
	b.table(panel{
		id: 33, title: "Links slow", width: 8, height: 8, now: true,
		help: help{
			"Up to 100 active ports whose rate is below their expected rate (`rate_expected_gbps`). Age is how long they have been " +
				"active.",
			nothing + "; every row is a link that is slower than it should be.",
			"follow the device's link; check the cable, the transceiver and the settings of the switch port.",
			"a rate that changed without a drop of the link: rdma_attr_change has the time.",
		},
		queries: []query{
			{text: `SELECT ` + lastOf("age", "rate", "expected") + ` FROM (` + rates + `) WHERE "up" = 1 AND "rate" < "expected" AND $timeFilter GROUP BY ` + byPort},
			{prom: slowLinks("rdma_port_rate_bytes_per_second{FILTER} * 8")},
			{prom: slowLinks("rdma_port_rate_expected_bytes_per_second{FILTER} * 8")},
			{prom: slowLinks("rdma_port_state_age_seconds{FILTER}")},
		},
	}, b.toRow(), b.placed(column{name: "port"}, column{name: "age", prom: "Value #C", title: "age", unit: "ns"},
		column{name: "rate", prom: "Value #A", title: "rate", unit: "Gbits"}, column{name: "expected", prom: "Value #B", title: "expected", unit: "Gbits"})...)
	b.first(100)
	b.table(panel{
		id: 34, title: "Failing probes", width: 12, height: 8,
		help: help{
			"Up to 100 probes with failed rounds in the dashboard's range: the completion came without its event; neither came; the completion " +
				"had an error status, or a verb failed. Age counts from the first failed round in the range.",
			nothing + "; every row is a vector whose applications may hang, or a device that does not work.",
			"lost events: check the vector's line in /proc/interrupts and its affinity; lost completions: check the kernel log, then drain the host.",
			"applications' own queues" + restarted,
		},
		queries: []query{
			{text: failuresOf("lost_events", "events"), prom: failedRounds("lost_events")},
			{text: failuresOf("lost_completions", "completions"), prom: failedRounds("lost_completions")},
			{text: failuresOf("errors", "errors"), prom: failedRounds("errors")},
			{
				text: `SELECT sum("age") AS "age" FROM (` + failing + `) WHERE $timeFilter GROUP BY ` + byVector,
				prom: `max by (PLACE, host, plugin_instance, device, port, vector) (time() - min_over_time(timestamp(rdma_cq_probe_ok{FILTER} == 0)[$__range:]))`,
			},
		},
	}, b.toRow(), b.placed(column{name: "age", prom: "Value #D", title: "age", unit: "ns"},
		column{name: "events", prom: "Value #A", title: "lost events"}, column{name: "completions", prom: "Value #B", title: "lost completions"},
		column{name: "errors", prom: "Value #C", title: "errors"}, column{name: "port"}, column{name: "vector"})...)
	b.first(100)
	b.stuckCommands()
}

// stuckCommands adds a table of the commands that no firmware answers.
func (b *board) stuckCommands() {
	b.table(panel{
		id: 41, title: "Commands stuck", width: 12, height: 8, now: true,
		help: help{
			"Up to 100 calls that the firmware of a device does not answer. Age is the time since then, within the last day; last end is the " +
				"result of the last call that ended; under way is the duration of the current call.",
			nothing + "; every row is a device whose firmware hangs.",
			"see the steps of the alert command-stuck; many rows with the same firmware point to that release, one row to a card.",
			"devices of silent hosts; drivers that answer from the host's memory.",
		},
		queries: []query{
			{text: `SELECT ` + lastOf("age", "status", "busy") + ` FROM
				(SELECT ` + lastOf("stuck", "status") + `, last("busy_ns") AS "busy" FROM {rdma_command} WHERE {filter} AND RECENT GROUP BY ` + byCall + `),
				(SELECT ` + lastOf("stuck") + `, max("age") * 1.0 AS "age" FROM (SELECT ` + lastOf("stuck") + `, last("stuck") * 0 AS "age"
				FROM {rdma_command} WHERE {filter} AND RECENT GROUP BY ` + byCall + `), (` + unanswered + `) WHERE $timeFilter GROUP BY ` + byCall + `)
				WHERE "stuck" = 1 AND $timeFilter GROUP BY ` + byCall},
			{prom: stuckNow(`time() - rdma:command_stuck:since{FILTER}`)},
			{prom: stuckNow(`rdma_command_busy_seconds{FILTER} and on (host, plugin_instance, device, port, call) rdma_command_stuck{FILTER} == 1`)},
			{prom: `max by (PLACE, host, plugin_instance, device, port, call, status) (rdma_command_status{FILTER} == 1
				and on (host, plugin_instance, device, port, call) rdma_command_stuck{FILTER} == 1)`},
		},
	}, b.toRow(), b.placed(column{name: "age", prom: "Value #A", title: "age", unit: "ns"}, column{name: "port"}, column{name: "call"},
		column{name: "status", title: "last end"}, column{name: "busy", prom: "Value #B", title: "under way", unit: "ns"},
		column{name: none, prom: "Value #C", hidden: true})...)
	b.over("1d")
	b.unknownAge("a day or more")
	b.first(100)
}

func stuckNow(value string) string {
	return `max by (PLACE, host, plugin_instance, device, port, call) (` + value + `)`
}

// unanswered is like unwatched, for calls that are stuck.
const unanswered = `SELECT elapsed("stuck", 1ns) AS "age" FROM
	(SELECT last("stuck") AS "stuck" FROM {rdma_command} WHERE {filter} AND "stuck" = 0 GROUP BY ` + byCall + `),
	(SELECT last("stuck") AS "stuck" FROM {rdma_command} WHERE {filter} GROUP BY ` + byCall + `)
	WHERE $timeFilter GROUP BY ` + byCall

// unwatched has how long each device has not been open: the time between its last point with open = 1 and its last point.
// It is 0 for a device that is open.
const unwatched = `SELECT elapsed("open", 1ns) AS "age" FROM
	(SELECT last("open") AS "open" FROM {rdma_device} WHERE {filter} AND "open" = 1 GROUP BY ` + byDevice + `),
	(SELECT last("open") AS "open" FROM {rdma_device} WHERE {filter} GROUP BY ` + byDevice + `)
	WHERE $timeFilter GROUP BY ` + byDevice

// failuresOf has how much a counter of failures grew, for the vectors on which it did. Each counter has a query of its own, because
// InfluxDB reads all points of the range to find the least value.
func failuresOf(counter, column string) string {
	return fmt.Sprintf(`SELECT sum(%[2]q) AS %[2]q FROM (SELECT last(%[1]q) - min(%[1]q) AS %[2]q FROM {rdma_cq_probe} WHERE {filter} GROUP BY %[3]s)
	WHERE %[2]q > 0 AND $timeFilter GROUP BY %[4]s`, counter, column, byProbe, byVector)
}

// failing has the time between the first bad round of each vector in the range and its last point. After a bad round the
// probe may go on with another method, so that the series of the one that failed ends there.
const failing = `SELECT elapsed("ok", 1ns) AS "age" FROM
	(SELECT first("ok") AS "ok" FROM {rdma_cq_probe} WHERE {filter} AND "ok" = 0 GROUP BY ` + byVector + `),
	(SELECT last("ok") AS "ok" FROM {rdma_cq_probe} WHERE {filter} GROUP BY ` + byVector + `)
	WHERE $timeFilter GROUP BY ` + byVector

// unknownAge sets the text for an age that InfluxDB has as 0, because its subqueries do not mix with nothing.
func (b *board) unknownAge(text string) { b.zeroIs("age", text) }

// zeroIs sets the text for a 0 in a column.
func (b *board) zeroIs(column, text string) {
	b.last().FieldConfig.Overrides = append(b.last().FieldConfig.Overrides, grafana.Override{
		Matcher: grafana.Matcher{ID: "byName", Options: column},
		Properties: []grafana.Property{{ID: "mappings", Value: []grafana.Mapping{
			{Type: "value", Options: map[string]grafana.Mapped{"0": {Text: text, Color: "text"}}},
		}}},
	})
}

// placed puts columns between those that say which device it is and those that say where its host is. The first ones are
// what a narrow panel shows.
func (b *board) placed(columns ...column) []column {
	return append(slices.Concat([]column{{name: "host"}, {name: "device"}}, columns), b.location()...)
}

// location has the columns of the places and of the plugin's instance.
func (b *board) location() []column {
	var all []column
	for _, label := range b.options.Labels {
		all = append(all, column{name: label})
	}
	return append(all, column{name: "instance"})
}

func slowLinks(value string) string {
	return `max by (PLACE, host, plugin_instance, device, port) (` + value + ` and on (host, plugin_instance, device, port)
		(rdma_port_rate_bytes_per_second{FILTER} < rdma_port_rate_expected_bytes_per_second{FILTER})
		and on (host, plugin_instance, device, port) rdma_port_up{FILTER} == 1)`
}

func failedRounds(field string) string {
	return `round(sum by (PLACE, host, plugin_instance, device, port, vector) (increase(rdma_cq_probe_` + field + `_total{FILTER}[$__range]))) > 0`
}

// silentHosts adds a table of the hosts with the oldest last reports. Grafana sorts
// it, because InfluxQL cannot sort by the time of a last point.
func (b *board) silentHosts() {
	b.table(panel{
		id: 9, title: "Hosts by last report", width: 12, height: 7,
		help: help{
			"The twenty hosts that reported within the last day and have been silent longest.",
			"nothing; if the last report is older than some minutes, the host is silent.",
			"is the host up? Does Telegraf run there? Its log has the plugin's messages.",
			"hosts that have been silent for more than a day.",
		},
		queries: []query{
			{text: `SELECT last("uptime_ns") AS "uptime" FROM {rdma_collector} WHERE {filter} GROUP BY ` + byHost},
			{prom: `topk(20, time() - max by (PLACE, host, plugin_instance) (timestamp(rdma_collector_uptime_seconds{FILTER})
				or max_over_time(` + reported + `{FILTER}[1d])))`},
		},
	}, b.toRow(), append([]column{
		{name: "host"}, {name: "Time", prom: none, title: "last report", unit: "dateTimeFromNow"},
		{name: none, prom: "Value", title: "time since last report", unit: "ns"}, {name: "uptime", prom: none, hidden: true},
	}, b.location()...)...)
	b.over("1d")
	if b.engine == Prometheus {
		return // topk has sorted them
	}
	b.first(20, sortedBy("Time", false))
}

// restarted is the end of the text about what the tables of counters cannot see.
const restarted = "; if the plugin was restarted within the range, what happened before the restart."

func (b *board) slowProbes() {
	b.table(panel{
		id: 15, title: "Slow probes", width: 8, height: 8, now: true,
		help: help{
			"The ten devices with the greatest 99th percentile of wake-up latency at present.",
			"nothing; compare the first with the last.",
			"follow the device's link and compare with its past; check the CPUs of the interrupts and their power states.",
			"cable and fabric.",
		},
		queries: []query{{text: `SELECT top("p99", ` + byDevice + `, 10) AS "p99" FROM (SELECT max("wake_ns_p99") AS "p99"
			FROM {rdma_cq_probe} WHERE {filter} GROUP BY ` + byDevice + `) WHERE $timeFilter`,
			prom: `topk(10, max by (PLACE, host, plugin_instance, device) (rdma_cq_probe_wake_p99_seconds{FILTER}))`}},
	}, b.toRow(), b.placed(column{name: "p99", prom: "Value", title: "p99", unit: b.names.unit("rdma_cq_probe.wake_ns_p99")})...)
	b.greatestFirst("p99")
}

// greatestFirst sorts the rows of the last table by a column. PromQL's topk has sorted them already, InfluxQL's top has not.
func (b *board) greatestFirst(column string) {
	if b.engine == InfluxDB {
		b.last().Transformations = append([]grafana.Transform{sortedBy(column, true)}, b.last().Transformations...)
	}
}

func (b *board) slowCommands() {
	b.table(panel{
		id: 42, title: "Slow commands", width: 8, height: 8, now: true,
		help: help{
			"The ten devices whose firmware takes longest for a command, by the current 99th percentile of the calls.",
			"nothing; compare the first with the last.",
			"follow the device's link; compare firmware and driver with other hosts.",
			"calls that have not ended: see Commands stuck.",
		},
		queries: []query{{text: `SELECT top("p99", ` + byDevice + `, 10) AS "p99" FROM (SELECT max("took_ns_p99") AS "p99"
			FROM {rdma_command} WHERE {filter} GROUP BY ` + byDevice + `) WHERE $timeFilter`,
			prom: `topk(10, max by (PLACE, host, plugin_instance, device) (rdma_command_took_p99_seconds{FILTER}))`}},
	}, b.toRow(), b.placed(column{name: "p99", prom: "Value", title: "p99", unit: b.names.unit("rdma_command.took_ns_p99")})...)
	b.greatestFirst("p99")
}
