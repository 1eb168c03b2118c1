package gen

import (
	"strconv"
	"strings"

	"rdma_events/assets/grafana"
	"rdma_events/internal/device/verbs"
)

// ofPorts and ofProbes are conditions that restrict the filter of the device dashboard to the chosen ports and vectors.
const (
	ofPorts  = ` AND "port" =~ /^$port$/`
	ofProbes = ofPorts + ` AND "vector" =~ /^$vector$/`
)

func deviceDashboard(n *names, e Engine, o *Options) *grafana.Dashboard {
	b := newBoard(n, e, o, []string{"host", "device"})
	b.row(1, "Now")
	b.deviceFacts()
	b.row(10, "Ports")
	b.devicePorts()
	b.row(15, "Events")
	b.deviceEvents()
	b.row(19, "Completion queue probes")
	b.deviceProbes()
	b.deviceLatency()
	b.row(33, "Commands to the firmware")
	b.deviceCommands()
	if b.hasMoments() {
		b.row(28, "What happened")
		b.deviceHappenings()
	}
	b.collapsed(31, "Plugin internals", b.deviceInternals)
	marks := []grafana.Annotation{b.portChanges(), b.gidMoves()}
	if b.hasMoments() {
		marks = append(marks, b.causes())
	}
	return b.dashboard(deviceUID, "RDMA device", "One RDMA device of one host: ports, events, probes.", "30s",
		[]grafana.Link{b.link("Overview", overviewUID, "All hosts"), b.toApps()}, b.deviceVariables(), marks...)
}

// portChanges marks every change of a port's state.
func (b *board) portChanges() grafana.Annotation {
	return b.annotation("Port changes", "orange", "state_to", "port,state_from,witness",
		query{
			text: `SELECT "code_to", "port", "state_from", "state_to", "witness" FROM {rdma_port_change} WHERE {filter}` +
				ofPorts + ` ORDER BY time DESC LIMIT 1000`,
			prom: `increase(rdma_port_transitions_total{FILTER,PORTS}[$__interval]) > 0.5`,
			logs: &logQuery{"rdma_port_change", []string{logsOfPorts}},
		})
}

// gidMoves marks every move of a GID to another index.
func (b *board) gidMoves() grafana.Annotation {
	return b.annotation("GID moves", "yellow", "gid", "port,index_from,index_to",
		query{
			text: `SELECT "gid", "port", "index_from", "index_to" FROM {rdma_gid_change} WHERE {filter}` + ofPorts +
				` AND "action" = 'moved' ORDER BY time DESC LIMIT 1000`,
			prom: `increase(rdma_port_gid_moves_total{FILTER,PORTS}[$__interval]) > 0.5`,
			logs: &logQuery{"rdma_gid_change", []string{logsOfPorts, `action="moved"`}},
		})
}

// orDevice is like ofPorts, for a measurement that also has points about the whole device.
const orDevice = ` AND ("port" =~ /^$port$/ OR "port" = '')`

// causes marks the evidence with a certain cause.
func (b *board) causes() grafana.Annotation {
	return b.annotation("Causes", "purple", "cause", "port,trigger,ext_state",
		query{
			text: `SELECT "cause", "port", "trigger", "ext_state" FROM {rdma_evidence} WHERE {filter}` + orDevice +
				` AND "cause" != '' ORDER BY time DESC LIMIT 1000`,
			logs: &logQuery{"rdma_evidence", []string{logsOrDevice, `cause!=""`}},
		})
}

func (b *board) deviceFacts() {
	const width, height = 4, 4
	one := newThresholds("red", level{1, "green"})
	b.stat(panel{
		id: 2, title: "Present", width: width, height: height, now: true,
		help: help{
			"1 while the host has the device.", "that the device is gone.",
			"look at `rdma link` and the kernel log of the host.", "why the device went away.",
		},
		queries: []query{{text: `SELECT last("present") AS "present" FROM {rdma_device} WHERE {filter}`,
			prom: `max(rdma_device_present{FILTER})`}},
	}, "-", one)
	b.stat(panel{
		id: 3, title: "Watched", width: width, height: height, now: true,
		help: help{
			"1 while a worker has the device open.", "that no process reads its events.",
			"the panel Worker has the reason; docs/how-to/troubleshooting.md has the steps for each reason.", "events that happen in the meantime.",
		},
		queries: []query{{text: `SELECT last("open") AS "open" FROM {rdma_device} WHERE {filter}`, prom: `max(rdma_device_open{FILTER})`}},
	}, "-", one)
	b.stat(panel{
		id: 4, title: "Ports down", width: width, height: height, now: true,
		help: help{
			"Ports of the device that should be active (`expected_up`) but are not.", "an outage.",
			"look at cable and switch port.", "ports of a device that is not open.",
		},
		queries: []query{{text: portsDown,
			prom: `sum(min by (host, device, port) (rdma_port_up{FILTER} and rdma_port_expected_up{FILTER} == 1) == bool 0) or sum(rdma_port_up{FILTER}) * 0`}},
	}, "-", brokenNow())
	b.stat(panel{
		id: 5, title: "Unacknowledged", width: width, height: height, now: true,
		help: help{
			"Events that were read but not acknowledged yet.", "that an acknowledgement hangs in the library or the kernel.",
			"wait: after ten seconds the worker is replaced, and the events count as released.", "which thread hangs: the log names the call.",
		},
		queries: []query{{text: `SELECT sum("unacked") AS "unacked" FROM (SELECT last("unacked") AS "unacked" FROM {rdma_async}
			WHERE {filter} GROUP BY ` + byPort + `) WHERE $timeFilter`, prom: `sum(rdma_async_unacked{FILTER})`}},
	}, "-", brokenNow())
	b.facts(panel{
		id: 8, title: "Worker", width: 8, height: height, now: true,
		help: help{
			"State of the worker process, and the reason if it does not watch the device.", "nothing.",
			"`backing_off`: the worker is restarted after a delay; `stuck`: the worker was killed and has not ended.", "the full message: the log has it.",
		},
		queries: []query{{text: `SELECT last("worker_state") AS "worker", last("reason") AS "reason" FROM {rdma_device} WHERE {filter}`,
			prom: `rdma_device_status{FILTER} == 1`}},
	}, "worker_state", "reason")
	b.facts(panel{
		id: 9, title: "What it is", width: 16, height: height,
		help: help{
			"The attributes that the device reported when it was opened.", "nothing.", "compare the firmware with other hosts.",
			"anything before the device was opened for the first time.",
		},
		queries: []query{{text: `SELECT last("driver") AS "driver", last("fw_ver") AS "firmware", last("board_id") AS "board",
			last("pci_address") AS "PCI", last("transport") AS "transport", last("events_supported") AS "raises events"
			FROM {rdma_device} WHERE {filter}`, prom: `rdma_device_info{FILTER} == 1`}},
	}, "driver", "fw_ver", "board_id", "pci_address", "transport", "events_supported")
	b.ports(32, "Ports", 8, height)
}

// portsDown counts the ports that should be up and whose last state is down. A port that is down for two
// instances of a host counts once.
const portsDown = `SELECT count("up") - sum("up") AS "down" FROM (SELECT min("up") AS "up" FROM (SELECT last("up") AS "up" FROM {rdma_port}
	WHERE {filter} AND "expected_up" = 1 GROUP BY ` + byPort + `) WHERE $timeFilter GROUP BY "host", "device", "port") WHERE $timeFilter`

// lowest explains which state a timeline shows. A scrape has only the state at its moment.
func (b *board) lowest() string {
	if b.engine == Prometheus {
		return "If scrapes found several states in one interval, the lowest is shown. A drop between two scrapes is missing here, but flaps count it."
	}
	return "If there are several states in one interval, the lowest is shown, so that short drops are visible."
}

func (b *board) devicePorts() {
	b.timeline(panel{
		id: 11, title: "Port state", width: 24, height: 6,
		help: help{
			"The state of each port. " + b.lowest(),
			"down.", "check cable and switch port; in `init` and `armed` the port waits for a subnet manager.",
			"anything while the device is absent (grey) or no plugin runs (empty).",
		},
		queries: []query{{alias: "port $tag_port", text: `SELECT min("state") AS "state" FROM {rdma_port} WHERE {filter}` + ofPorts +
			` GROUP BY time($__interval), "port" fill(none)`,
			prom: "min by (port) (" + inInterval("min", "rdma_port_state{FILTER,PORTS}") + ")"}},
	}, portStates())
	b.series(panel{
		id: 12, title: "Flaps and disagreements", width: 8, height: 8,
		help: help{
			"Flaps; drops of the link that the driver counted but no event reported (missed); events that reported the state that the port already had (phantom).",
			"nothing; missed drops mean that events are lost, or that drops come less than 5 ms apart.",
			"compare the driver's link_downed with the switch's own counter.", "drops that neither the driver nor an event reported.",
		},
		queries: []query{
			countedBy("port", "flaps", "flaps", "rdma_port", ofPorts),
			countedBy("port", "missed", "missed_transitions", "rdma_port", ofPorts),
			countedBy("port", "phantom", "phantom_events", "rdma_port", ofPorts),
		},
	}, bars)
	b.series(panel{
		id: 13, title: "Flap durations", width: 8, height: 8, unit: b.names.unit("rdma_port_change.lasted_ns"),
		help: help{
			"How long a port was not active, shown at the time when it became active again.", "nothing.",
			"tens of milliseconds point to a link that was trained again, seconds to a switch port or the driver.",
			"outages that have not ended: see the timeline.",
		},
		queries: []query{{alias: "port $tag_port", text: `SELECT max("lasted_ns") AS "lasted" FROM {rdma_port_change} WHERE {filter}` +
			ofPorts + ` AND "state_to" = 'active' AND "state_from" != 'absent' GROUP BY time($__interval), "port" fill(none)`},
			{alias: "down in the interval, port $tag_port", prom: `sum by (port) (increase(rdma_port_down_seconds_total{FILTER,PORTS}[$__interval])) > 0`}},
	}, points)
	b.series(panel{
		id: 14, title: "Link rate", width: 8, height: 8, unit: b.names.unit("rdma_port.rate_gbps"),
		help: help{
			"Signalling rate over all lanes, and the best rate since the plugin started.",
			"nothing; after a step down the link has fewer lanes or a lower speed.",
			"check cable and transceiver.", "traffic: this is the capacity of the link.",
		},
		queries: []query{{alias: "port $tag_port", text: `SELECT min("rate_gbps") AS "rate" FROM {rdma_port} WHERE {filter}` + ofPorts +
			` GROUP BY time($__interval), "port" fill(none)`, prom: `min by (port) (rdma_port_rate_bytes_per_second{FILTER,PORTS}) * 8`},
			{alias: "best, port $tag_port", text: `SELECT max("rate_best_gbps") AS "best" FROM {rdma_port} WHERE {filter}` + ofPorts +
				` GROUP BY time($__interval), "port" fill(none)`, prom: `max by (port) (rdma_port_rate_best_bytes_per_second{FILTER,PORTS}) * 8`}},
	}, lines)
}

// portStates maps the numbers of port states to names and colours.
func portStates() grafana.Mapping {
	colors := map[verbs.PortState]string{
		verbs.PortDown: "red", verbs.PortInit: "orange", verbs.PortArmed: "yellow", verbs.PortActive: "green",
		verbs.PortActiveDefer: "yellow",
	}
	m := grafana.Mapping{Type: "value", Options: map[string]grafana.Mapped{}}
	for state := verbs.PortAbsent; state <= verbs.PortActiveDefer; state++ {
		color := colors[state]
		if color == "" {
			color = grey
		}
		m.Options[strconv.Itoa(int(state))] = grafana.Mapped{Text: state.String(), Color: color, Index: len(m.Options)}
	}
	return m
}

func (b *board) deviceEvents() {
	b.stat(panel{
		id: 6, title: "Fatal events", width: 4, height: 8,
		help: help{
			"device_fatal events in the dashboard's range.", "that the driver gave up the device; applications have lost their contexts on it.",
			"check the kernel log; removing a device raises the event too.", "the cause that the firmware knows.",
		},
		queries: []query{{text: summedIncrease("fatals", "rdma_device", "", ""), prom: `round(sum(increase(rdma_device_fatals_total{FILTER}[$__range])))`}},
	}, "0", brokenNow())
	b.series(panel{
		id: 16, title: "Events by type", width: 20, height: 8,
		help: help{
			"Events of each type that were read in each interval. `port_err` followed by `port_active` is a drop of the link.",
			"nothing; `device_fatal`, `cq_err` and `qp_fatal` are never normal.",
			"look at the table of events below.", "events of applications' queue pairs and queues, and events while the device was not open.",
		},
		queries: []query{{alias: "$tag_event", text: `SELECT sum("count") AS "events" FROM {rdma_async_event}
			WHERE {filter} GROUP BY time($__interval), "event" fill(0)`, prom: eventCounts}},
	}, bars)
}

func (b *board) deviceProbes() {
	b.series(panel{
		id: 20, title: "Probe failures by kind", width: 8, height: 8,
		help: help{
			"Failed rounds: the completion came without its event; neither came; the completion had an error status, or a verb failed.",
			"nothing; normally all are 0.",
			"lost events: check the interrupt of that vector; lost completions: check the device; errors: see the field status.",
			"applications' own queues.",
		},
		queries: []query{
			countedBy("vector", "lost events", "lost_events", "rdma_cq_probe", ofProbes),
			countedBy("vector", "lost completions", "lost_completions", "rdma_cq_probe", ofProbes),
			countedBy("vector", "errors", "errors", "rdma_cq_probe", ofProbes),
		},
	}, bars)
}

func (b *board) deviceLatency() {
	b.stage(23, "wake", "Wake-up latency", help{
		"Time from before the post to the return of ibv_get_cq_event, over the probe's window.", "nothing.",
		"compare with the same hour of other days; an idle CPU is in a deeper sleep state and wakes up later.", "faults of cables and of the fabric.",
	})
	b.series(panel{
		id: 26, title: "Wake-up p99 by vector", width: 8, height: 8, unit: b.names.unit("rdma_cq_probe.wake_ns_p99"),
		help: help{
			"The 99th percentile of each completion vector. The dashed line is five times the mean of the three hours that ended an hour " +
				"before; the alert wake-slow compares with it.",
			"nothing; one line far above the others points to one interrupt.",
			"look at that vector's line in /proc/interrupts and at what else runs on its CPU.",
			"vectors that are not probed: see the option `vectors`. In InfluxDB, there is no dashed line before four hours of reports.",
		},
		queries: []query{{alias: "vector $tag_vector, $tag_method", text: `SELECT max("wake_ns_p99") AS "p99" FROM {rdma_cq_probe} WHERE {filter}` +
			ofProbes + ` GROUP BY time($__interval), "vector", "method" fill(none)`,
			prom: `max by (vector, method) (rdma_cq_probe_wake_p99_seconds{FILTER,PROBES})`},
			{alias: past + ", vector $tag_vector, $tag_method", text: fivePasts,
				prom: `5 * max by (vector, method) (avg_over_time(rdma:cq_probe_wake_p99_seconds:mean5m{FILTER,PROBES}[3h] offset 1h))`}},
	}, lines)
}

// fivePasts returns, for each moment, five times the mean of the three hours that ended an hour before. InfluxQL cannot shift
// time. So the query takes the mean of the last 48 intervals of five minutes without the last 12.
const fivePasts = `SELECT 5 * (48 * moving_average(mean("wake_ns_p99"), 48) - 12 * moving_average(mean("wake_ns_p99"), 12)) / 36 AS "past"
	FROM {rdma_cq_probe} WHERE time >= ${__from}ms - 4h AND time <= ${__to}ms AND "host" =~ /^$host$/ AND "device" =~ /^$device$/` + ofProbes + `
	GROUP BY time(5m), "vector", "method" fill(none)`

// deviceCommands adds the panels about calls that the firmware of the device has to answer.
func (b *board) deviceCommands() {
	const without = "drivers that answer from the host's memory, such as rxe and siw: their devices have **No data** here."
	b.timeline(panel{
		id: 34, title: "Commands: answered", width: 8, height: 8,
		help: help{
			"Whether the firmware answers each kind of call. If there are several states in one interval, the worst is shown.",
			"stuck: a call has lasted longer than `command_stuck`, or three calls in a row ended without an answer.",
			"check the kernel log and `devlink health show`; then drain the host and reset the device. The port may stay active all the time.",
			without,
		},
		queries: []query{{alias: "$tag_call, port $tag_port", text: `SELECT max("stuck") AS "stuck" FROM {rdma_command} WHERE {filter}` + ofPorts +
			` GROUP BY time($__interval), "call", "port" fill(none)`,
			prom: "max by (call, port) (" + inInterval("max", "rdma_command_stuck{FILTER,PORTS}") + ")"}},
	}, commandStates())
	took := func(rank string) query {
		return query{
			alias: "$tag_call, " + rank, text: `SELECT max("took_ns_` + rank + `") AS "` + rank + `" FROM {rdma_command} WHERE {filter}` + ofPorts +
				` GROUP BY time($__interval), "call" fill(none)`,
			prom: "max by (call) (rdma_command_took_" + rank + "_seconds{FILTER,PORTS})",
		}
	}
	b.series(panel{
		id: 35, title: "Commands: time to answer", width: 8, height: 8, unit: b.names.unit("rdma_command.took_ns_p99"),
		help: help{
			"Time that the firmware took for each kind of call, on the slowest port: percentiles over the probe's window.",
			"nothing; microseconds are normal, a second or more means that the firmware has a problem.",
			"compare with the same hour of other days, and with devices that have the same firmware.",
			"a call that has not ended: see the panel on the left. " + strings.ToUpper(without[:1]) + without[1:],
		},
		queries: []query{took("p50"), took("p99")},
	}, lines)
	b.series(panel{
		id: 36, title: "Commands: errors", width: 8, height: 8,
		help: help{
			"Failed calls in each interval. The field status of rdma_command has the errno of the last call.",
			"nothing; normally all are 0. ETIMEDOUT, ETIME, EIO, ENOLINK and ENODEV mean no answer, other errors a refusal.",
			"check the kernel log; after three calls in a row without an answer the command counts as stuck.", without,
		},
		queries: []query{{
			alias: "errors, $tag_call", text: summedIncrease("errors", "rdma_command", ofPorts, `time($__interval), "call" fill(0)`),
			prom: `sum by (call) (` + counterIncrease("errors", "rdma_command", ofPorts) + `)`,
		}},
	}, bars)
}

// commandStates maps rdma_command.stuck to words and colours.
func commandStates() grafana.Mapping {
	return grafana.Mapping{Type: "value", Options: map[string]grafana.Mapped{
		"0": {Text: "answered", Color: "green"}, "1": {Text: "stuck", Color: "red", Index: 1},
	}}
}

// yesNo maps 0 and 1 to words. No has a colour, because it explains why the port is down.
func yesNo() grafana.Mapping {
	return grafana.Mapping{Type: "value", Options: map[string]grafana.Mapped{
		"0": {Text: "no", Color: "orange"}, "1": {Text: "yes", Color: "text", Index: 1},
	}}
}

// stage adds a panel with the percentiles of one part of a probe round.
func (b *board) stage(id int, name, title string, h help) {
	field := name + "_ns_"
	queries := []query{{alias: "$col", text: `SELECT max("` + field + `p50") AS "p50", max("` + field + `p90") AS "p90", max("` +
		field + `p99") AS "p99", max("` + field + `max") AS "max" FROM {rdma_cq_probe} WHERE {filter}` + ofProbes +
		` GROUP BY time($__interval) fill(none)`}}
	for _, rank := range []string{"p50", "p90", "p99", "max"} {
		queries = append(queries, query{alias: rank, prom: "max(rdma_cq_probe_" + name + "_" + rank + "_seconds{FILTER,PROBES})"})
	}
	b.series(panel{
		id: id, title: title, width: 8, height: 8, unit: b.names.unit("rdma_cq_probe." + field + "p99"), help: h,
		detail: name != "wake", queries: queries,
	}, lines)
}

// deviceInternals adds the panels about the plugin itself.
func (b *board) deviceInternals() {
	b.stat(panel{
		id: 7, title: "Worker restarts", width: 6, height: 8,
		help: help{
			"Restarts of the device's worker process in the dashboard's range.", nothing + "; three or more mean that it crashes again and again.",
			"the log of Telegraf names the signal and the verbs call.", "restarts of Telegraf itself.",
		},
		queries: []query{{text: summedIncrease("worker_restarts", "rdma_device", "", ""),
			prom: `round(sum(increase(rdma_device_worker_restarts_total{FILTER}[$__range])))`}},
	}, "0", newThresholds("green", level{1, "light-purple"}, level{3, "purple"}))
	b.series(panel{
		id: 17, title: "Parity", width: 6, height: 8,
		help: help{
			"Events that were read and not acknowledged; events that were freed when a worker died (released); and the drift between the counters.",
			"nothing; unacknowledged events come and go, the drift is always 0.",
			"report a drift: it is a bug in the plugin.", "which call hangs: the log names it.",
		},
		queries: []query{
			{alias: "unacknowledged", text: `SELECT max("unacked") AS "unacked" FROM {rdma_async} WHERE {filter} GROUP BY time($__interval) fill(none)`,
				prom: `max(rdma_async_unacked{FILTER})`},
			counterQuery("released", "released", "rdma_async", ""),
			{alias: "drift", text: `SELECT max("drift") AS "drift" FROM (SELECT "read" - "acked" - "unacked" - "released" AS "drift"
				FROM {rdma_async} WHERE {filter}) WHERE $timeFilter GROUP BY time($__interval) fill(none)`,
				prom: `max(rdma_async_read_total{FILTER} - rdma_async_acked_total{FILTER} - rdma_async_unacked{FILTER} - rdma_async_released_total{FILTER})`},
		},
	}, lines)
	b.series(panel{
		id: 18, title: "Hold and acknowledgement", width: 6, height: 8, detail: true, unit: b.names.unit("rdma_async.hold_ns_max"),
		help: help{
			"Time from reading events to their acknowledgement, and the time of the acknowledgement alone.", "nothing.",
			"if it takes milliseconds, the worker did not get CPU time, or the library waits.",
			"intervals without an event. In libibverbs, acknowledging port and device events does nothing.",
		},
		queries: []query{{alias: "$col", text: `SELECT mean("hold_ns_mean") AS "hold mean", max("hold_ns_max") AS "hold max",
			mean("ack_ns_mean") AS "ack mean", max("ack_ns_max") AS "ack max" FROM {rdma_async} WHERE {filter}
			GROUP BY time($__interval) fill(none)`},
			{alias: "hold max", prom: `max(rdma_async_hold_max_seconds{FILTER})`},
			{alias: "ack max", prom: `max(rdma_async_ack_max_seconds{FILTER})`}},
	}, points)
	b.series(panel{
		id: 21, title: "Rounds", width: 6, height: 8,
		help: help{
			"Successful rounds, events that came too late for their round, and events without a completion.", "nothing.",
			"late events: see wake-up latency; events without a completion (spurious) are permitted.", "how late an event was.",
		},
		queries: []query{
			counterQuery("successes", "successes", "rdma_cq_probe", ofProbes),
			counterQuery("late", "late", "rdma_cq_probe", ofProbes),
			counterQuery("spurious", "spurious", "rdma_cq_probe", ofProbes),
		},
	}, bars)
	b.series(panel{
		id: 22, title: "Parity of completion events", width: 8, height: 8,
		help: help{
			"Completion events that were read and not acknowledged, and the drift between the counters.",
			"nothing; unacknowledged events stay below `ack_batch`, and the drift is always 0.",
			"report a drift: it is a bug in the plugin.", "applications' own queues.",
		},
		queries: []query{
			{alias: "unacknowledged, vector $tag_vector", text: `SELECT max("unacked") AS "unacked" FROM {rdma_cq_probe} WHERE {filter}` + ofProbes +
				` GROUP BY time($__interval), "vector" fill(none)`, prom: `max by (vector) (rdma_cq_probe_unacked{FILTER,PROBES})`},
			{alias: "drift", text: `SELECT max("drift") AS "drift" FROM (SELECT "events" - "acked" - "unacked" - "released" AS "drift"
				FROM {rdma_cq_probe} WHERE {filter}` + ofProbes + `) WHERE $timeFilter GROUP BY time($__interval) fill(none)`,
				prom: `max(rdma_cq_probe_events_total{FILTER,PROBES} - rdma_cq_probe_acked_total{FILTER,PROBES}
					- rdma_cq_probe_unacked{FILTER,PROBES} - rdma_cq_probe_released_total{FILTER,PROBES})`},
		},
	}, lines)
	b.stage(24, "hold", "Hold", help{
		"Time from the return of ibv_get_cq_event to the return of ibv_ack_cq_events.", "nothing.",
		"with `ack_batch` above 1, long times are intended.", "applications' own holds.",
	})
	b.stage(25, "ack", "Acknowledgement", help{
		"Time in ibv_ack_cq_events.", "nothing.", "microseconds point to a mutex, longer times to a thread that gets no CPU time.",
		"what happens inside the library.",
	})
	b.series(panel{
		id: 27, title: "Hold and acknowledgement p99 by vector", width: 8, height: 8, detail: true, unit: b.names.unit("rdma_cq_probe.hold_ns_p99"),
		help: help{
			"99th percentiles of hold and acknowledgement by vector.", "nothing; one line far above the others points to the thread of one vector.",
			"look at what else runs on its CPU.", "vectors that are not probed.",
		},
		queries: []query{
			{alias: "hold, vector $tag_vector", text: `SELECT max("hold_ns_p99") AS "p99" FROM {rdma_cq_probe} WHERE {filter}` + ofProbes +
				` GROUP BY time($__interval), "vector" fill(none)`, prom: `max by (vector) (rdma_cq_probe_hold_p99_seconds{FILTER,PROBES})`},
			{alias: "ack, vector $tag_vector", text: `SELECT max("ack_ns_p99") AS "p99" FROM {rdma_cq_probe} WHERE {filter}` + ofProbes +
				` GROUP BY time($__interval), "vector" fill(none)`, prom: `max by (vector) (rdma_cq_probe_ack_p99_seconds{FILTER,PROBES})`},
		},
	}, lines)
}

func (b *board) deviceHappenings() {
	b.table(panel{
		id: 37, title: "Evidence", width: 24, height: 10,
		help: help{
			"The state of a port shortly after a trigger, for the last 200 triggers. The cause is shown if it is certain. The counters shown are " +
				"those with the greatest changes since the previous reading.",
			"nothing.",
			"docs/reference/causes.md explains each cause; `rdma-events events` on the host has all counters.",
			"each trigger, if a port has more than ten in a minute; why a peer went away.",
		},
		queries: []query{{text: `SELECT "port", "trigger", "cause", "admin_up", "carrier", "ext_state", "top", "left_out" FROM {rdma_evidence}
			WHERE {filter}` + orDevice + ` ORDER BY time DESC LIMIT 200`, logs: &logQuery{"rdma_evidence", []string{logsOrDevice}}}},
	}, nil, column{name: "Time"}, column{name: "port"}, column{name: "trigger"}, column{name: "cause"},
		column{name: "admin_up", title: "admin up"}, column{name: "carrier"}, column{name: "ext_state", title: "link"},
		column{name: "top", title: "counters that moved"}, column{name: "left_out", title: "left out"})
	for _, flag := range []string{"admin up", "carrier"} {
		b.mapped(flag, yesNo())
	}
	b.table(panel{
		id: 29, title: "Port changes", width: 12, height: 10,
		help: help{
			"The last 200 changes of port states. The witness is the source: an event, a query, or the first query after a worker was replaced.",
			"nothing.", "if many have the witness `query`, events of the device are lost.", "changes while no plugin ran.",
		},
		queries: []query{{text: `SELECT "port", "state_from", "state_to", "witness", "lasted_ns", "transitions" FROM {rdma_port_change}
			WHERE {filter}` + ofPorts + ` ORDER BY time DESC LIMIT 200`, logs: &logQuery{"rdma_port_change", []string{logsOfPorts}}}},
	}, nil, column{name: "Time"}, column{name: "port"}, column{name: "state_from", title: "from"}, column{name: "state_to", title: "to"},
		column{name: "witness"}, column{name: "lasted_ns", title: "lasted", unit: b.names.unit("rdma_port_change.lasted_ns")},
		column{name: "transitions"})
	b.table(panel{
		id: 30, title: "Events", width: 12, height: 10,
		help: help{
			"The last 200 events, or runs of equal events.", "nothing.",
			"docs/reference/metrics.md lists the types; types named `unknown_` are newer than the plugin.", "events of applications' queue pairs and queues.",
		},
		queries: []query{{text: `SELECT "event", "scope", "port", "count", "hold_ns" FROM {rdma_async_event}
			WHERE {filter} ORDER BY time DESC LIMIT 200`, logs: &logQuery{measurement: "rdma_async_event"}}},
	}, nil, column{name: "Time"}, column{name: "event"}, column{name: "scope"}, column{name: "port"}, column{name: "count"},
		column{name: "hold_ns", title: "hold", unit: b.names.unit("rdma_async_event.hold_ns")})
}
