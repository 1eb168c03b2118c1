package main

import (
	"slices"
	"time"
)

func rules() []rule {
	return slices.Concat(portRules(), deviceRules(), probeRules(), pluginRules())
}

// growth returns the step for a counter's increase in each series in which it
// increased.
func growth(field, measurement string, over time.Duration) step {
	return step{query: grown(field, measurement), from: over}
}

// quiet is the noData state of a rule if another rule fires when nothing is
// reported.
const quiet = "OK"

func portRules() []rule {
	return []rule{
		{
			id: "port-down", title: "RDMA port down", severity: "critical", hold: time.Minute, noData: quiet,
			summary: "Port {{ .Labels.port }} of {{ .Labels.device }} on {{ .Labels.host }} is down",
			steps: []step{
				{query: `SELECT last("up") AS "up" FROM {rdma_port} WHERE {filter} AND "expected" != 'down' GROUP BY ` + byPort, from: window},
				// A query for any point would read the points of a day. InfluxDB finds the last point without that.
				{
					query: `SELECT last("up") AS "up" FROM {rdma_port} WHERE {filter} AND "expected" != 'down' AND "up" = 1 GROUP BY ` + byPort,
					from:  24 * time.Hour,
				},
			},
			when:   "$RA == 0 && $RB == 1",
			promql: `rdma_port_up{expected!="down"} == 0 and max_over_time(rdma:port_up:max5m[1d]) == 1`,
			fires: "The port is not active now and was active within the last day, so a restart of Telegraf or of the host during the outage " +
				"does not silence it.",
			quiet: "Ports of expected_down; ports that have not been active for a day, as unused ones; drops shorter than a minute; " +
				"ports of devices that are missing, which device-missing reports.",
			clears: "When the port is active again, or has been down for a day.",
			do: []string{
				"Look at the Device dashboard: one port, or all of the device? One device, or all behind a switch (Fleet)?",
				"On the host: `rdma link`, `ip link`, `ethtool -m` for the transceiver. The field phys_state_name shows whether a link is polling or disabled.",
				"InfiniBand in state init or armed has a link and waits for a subnet manager.",
				"If it is down by design, add it to expected_down.",
			},
			blind: "A port whose device is not open. A bond may hide the loss of one leg from its own port.",
		},
		{
			id: "port-flapping", title: "RDMA port flapping", severity: "warning", noData: quiet, above: 2,
			summary: "Port {{ .Labels.port }} of {{ .Labels.device }} on {{ .Labels.host }} flaps",
			steps:   []step{growth("flaps", "rdma_port", 30*time.Minute)},
			promql:  `increase(rdma_port_flaps_total[30m]) > 2.5`,
			fires:   "Three flaps (active, not active, active again) or more within half an hour.",
			quiet:   "One or two flaps, as when a cable is moved. A device that goes and comes back has not flapped.",
			clears:  "By itself, half an hour after the flaps: long enough to be seen, short enough that no operator has to clear it.",
			do: []string{
				"Look at flap durations on the Device dashboard: tens of milliseconds are a link that trains again, seconds a switch port or a driver.",
				"Clean or replace cable and transceiver; compare with the switch's own counters.",
			},
			blind: "Flaps closer together than 5 ms may count as one; link-disagrees reports them.",
		},
		{
			id: "link-disagrees", title: "RDMA link counter and events disagree", severity: "warning", noData: quiet,
			summary: "The driver of {{ .Labels.device }} on {{ .Labels.host }} counted drops of port {{ .Labels.port }} that no event reported",
			steps:   []step{growth("missed_transitions", "rdma_port", 30*time.Minute)},
			promql:  `increase(rdma_port_missed_transitions_total[30m]) > 0.5`,
			fires:   "The driver's link_downed ran ahead of the drops that events and queries reported, by one or more within half an hour.",
			quiet:   "Drops that events reported, however many. Drivers without a link_downed counter.",
			clears:  "Half an hour after the last one.",
			do: []string{
				"Drops closer together than 5 ms can do it: look at flaps.",
				"With few flaps, events are lost: look at unacked and at the worker's state, then at driver and firmware versions.",
			},
			blind: "Drops that neither the driver nor an event reported.",
		},
		{
			id: "gid-moved", title: "RDMA GID moved", severity: "warning", noData: quiet,
			summary: "A GID of port {{ .Labels.port }} of {{ .Labels.device }} on {{ .Labels.host }} is at another index now",
			steps:   []step{growth("gid_moves", "rdma_port", 30*time.Minute)},
			promql:  `increase(rdma_port_gid_moves_total[30m]) > 0.5`,
			fires: "An address came back at another index of the GID table, or changed its index, within half an hour. Jobs that name " +
				"a GID by its index, as NCCL does with NCCL_IB_GID_INDEX, fail or use another address.",
			quiet: "Addresses that are added or removed for good, and those that come back at their index; link-local GIDs, which move " +
				"with the MAC address.",
			clears: "By itself, half an hour after the last move.",
			do: []string{
				"The annotation on the Device dashboard, and rdma_gid_change, have the GID and both indexes. own_probe = 1: a probe of this " +
					"plugin held the old place; leave probe.gid_index at -1.",
				"Else another program's queue pair or address handle held it while a network manager deleted the address and added it " +
					"again: `rdma resource show qp` lists programs.",
				"Restart jobs that name the old index, or let them choose the GID by address.",
			},
			blind: "A GID that moved and moved back between two readings of the table. InfiniBand, whose GIDs have fixed places.",
		},
	}
}

func deviceRules() []rule {
	return []rule{
		{
			id: "device-missing", title: "RDMA device missing", severity: "critical", hold: time.Minute, noData: quiet,
			summary: "{{ .Labels.device }} is missing on {{ .Labels.host }}",
			steps: []step{{
				// The reason may change after the device has gone, so the last one counts.
				query: `SELECT last("present") AS "present" FROM (SELECT last("present") AS "present", last("reason") AS "reason" ` +
					`FROM {rdma_device} WHERE {filter} GROUP BY ` + byDevice + `) WHERE $timeFilter ` +
					`AND "reason" != 'renamed' AND "reason" != 'reassigned' GROUP BY ` + byDevice,
				from: window,
			}},
			when:   "$RA == 0",
			promql: `rdma_device_present == 0 unless on (host, device, plugin_instance) rdma_device_status{reason=~"renamed|reassigned"} == 1`,
			fires:  "The device was there since the plugin started, or is in its option expect, and has been gone for a minute.",
			quiet: "A reset that is over within a minute. A device that was renamed: it goes on under its new name. One whose PCI " +
				"function was given to another driver, as vfio-pci, or to another RDMA device, as that of a bond. One of expect is missing in both cases.",
			clears: "When the device is back; or when the plugin restarts, unless the device is in expect. List there what must not be missing.",
			do: []string{
				"`rdma link`, `lspci`, and the kernel log: AER errors, a driver that was unloaded, firmware that does not answer.",
				"A virtual function may have been taken away by whoever manages them.",
			},
			blind: "Devices that were gone before the plugin started and are not in expect.",
		},
		{
			id: "device-fatal", title: "RDMA device fatal", severity: "critical", noData: quiet,
			summary: "{{ .Labels.device }} on {{ .Labels.host }} raised device_fatal",
			steps:   []step{growth("fatals", "rdma_device", 30*time.Minute)},
			promql:  `increase(rdma_device_fatals_total[30m]) > 0.5`,
			fires:   "device_fatal was raised within the last half hour: the driver gave the device up, and every application on it has lost its context.",
			quiet:   "All other events.",
			clears:  "Half an hour after the last one.",
			do: []string{
				"The kernel log has the driver's reason. A device that is pulled out, or whose driver is unloaded, raises it too.",
				"Jobs that ran on the device have failed: drain the host until the device has been tested.",
			},
			blind: "Drivers that raise no events (events_supported is 0).",
		},
		{
			id: "unacked-events", title: "RDMA events unacknowledged", severity: "warning", noData: quiet, hold: window,
			summary: "Events of {{ .Labels.device }} on {{ .Labels.host }} are not acknowledged",
			steps: []step{{
				query: `SELECT max("n") AS "events" FROM
					(SELECT last("released") - min("released") AS "n" FROM {rdma_async} WHERE {filter} GROUP BY ` + byPort + `),
					(SELECT last("unacked") AS "n" FROM {rdma_async} WHERE {filter} GROUP BY ` + byPort + `)
					WHERE "n" > 0 AND $timeFilter GROUP BY ` + byPort,
				from: 30 * time.Minute,
			}},
			promql: `increase(rdma_async_released_total[30m]) > 0.5 or min_over_time(rdma_async_unacked[3m]) > 0`,
			fires: "Events were read and never acknowledged: their worker died or was killed while it held them (released), within half an hour; or " +
				"there have been unacknowledged ones for three minutes. While an event is not acknowledged, whoever destroys the object that it " +
				"is about waits.",
			quiet:  "An acknowledgement that takes some seconds and returns. A worker that dies with nothing in its hands.",
			clears: "Half an hour after the last one, or when the plugin restarts.",
			do: []string{
				"The log of Telegraf names the verbs call in which the worker was.",
				"The same call again and again: the provider library or the driver; report it with their versions.",
			},
			blind: "Acknowledgements of applications.",
		},
	}
}

func probeRules() []rule {
	return []rule{
		{
			id: "lost-events", title: "RDMA completion events lost", severity: "warning", noData: quiet, above: 2,
			summary: "Vector {{ .Labels.vector }} of {{ .Labels.device }} on {{ .Labels.host }} loses completion events",
			steps:   []step{growth("lost_events", "rdma_cq_probe", 15*time.Minute)},
			promql:  `increase(rdma_cq_probe_lost_events_total[15m]) > 2.5`,
			fires: "In three probe rounds or more of a quarter of an hour the completion was there and its event never came: the interrupt path. " +
				"Applications that sleep for completions hang.",
			quiet:  "One or two rounds, as on a host without a CPU to spare. Rounds without a completion, which lost-completions reports.",
			clears: "A quarter of an hour after the last one.",
			do: []string{
				"/proc/interrupts: does the vector's line count? On which CPU, and is that one online?",
				"irqbalance and the affinity of the vector; then driver and firmware.",
			},
			blind: "Vectors that are not probed: see the option vectors.",
		},
		{
			id: "lost-completions", title: "RDMA completions lost", severity: "critical", noData: quiet, above: 2,
			summary: "Port {{ .Labels.port }} of {{ .Labels.device }} on {{ .Labels.host }} completes no work",
			steps:   []step{growth("lost_completions", "rdma_cq_probe", 15*time.Minute)},
			promql:  `increase(rdma_cq_probe_lost_completions_total[15m]) > 2.5`,
			fires:   "In three probe rounds or more of a quarter of an hour the work was posted and never completed: the device's own data path.",
			quiet:   "One or two rounds. Rounds whose completion came without its event, which lost-events reports.",
			clears:  "A quarter of an hour after the last one.",
			do: []string{
				"The kernel log and the device's counters. Does a transfer of an application still work?",
				"Drain the host; reset the device; replace it if it comes again.",
			},
			blind: "Cable and fabric: the probe's queue pair is connected to itself.",
		},
		{
			id: "wake-slow", title: "RDMA wake-up far slower than its past", severity: "warning", noData: quiet, slow: true, hold: 10 * time.Minute,
			summary: "Wake-ups on vector {{ .Labels.vector }} of {{ .Labels.device }} on {{ .Labels.host }} are far slower than they were",
			steps: []step{
				{query: `SELECT mean("wake_ns_p99") AS "p99" FROM {rdma_cq_probe} WHERE {filter} GROUP BY ` + byProbe, from: 5 * time.Minute},
				{
					// rdma_host adds a series that matches no probe. Without it each side could have only one series.
					// Grafana would then compare the two whatever their labels are, for example after an update that
					// changed the method (mathexp.union).
					query: `SELECT mean("wake_ns_p99") AS "p99" FROM {rdma_cq_probe}, {rdma_host} WHERE {filter} GROUP BY ` + byProbe,
					from:  4 * time.Hour, to: time.Hour,
				},
			},
			when: "$RA > 5 * $RB && $RA > 200000",
			promql: `avg_over_time(rdma_cq_probe_wake_p99_seconds[5m]) > 5 * avg_over_time(rdma:cq_probe_wake_p99_seconds:mean5m[3h] offset 1h)
				and avg_over_time(rdma_cq_probe_wake_p99_seconds[5m]) > 200e-6`,
			fires: "For ten minutes the 99th percentile of wake-up latency has been above five times its mean of the three hours that ended an " +
				"hour ago, and above 200 us.",
			quiet:  "Probes whose method has been in use for less than an hour; latencies below 200 us, where five times little is little.",
			clears: "When it is fast again; or after one to two hours, when slow has become its past: look at the graph then.",
			do: []string{
				"Device dashboard: one vector, or all? All devices of the host?",
				"What has changed on the CPU of that interrupt: load, power governor, idle states, a virtual machine's neighbours?",
			},
			blind: "Cable and fabric. An idle host's wake-ups are slower than a busy one's, by its power states.",
		},
	}
}

// silence returns, for each plugin, whether its last point is in the last two
// buckets: the mean number of last points in these buckets, which is 0 if the last
// point is older. It takes two buckets, because the last one may just have begun.
// The first bucket begins before the time range, so the outer query has no
// $timeFilter: it would leave no result (InfluxDB 1.8). Counting all points instead
// of the last one would read a day of points.
const silence = `SELECT last("n") AS "n" FROM (SELECT moving_average(count("uptime"), 2) AS "n" FROM (SELECT last("uptime_ns") AS "uptime"
	FROM {rdma_collector} WHERE {filter} GROUP BY ` + byHost + `) WHERE $timeFilter GROUP BY time(5m), ` + byHost + ` fill(0)) GROUP BY ` + byHost

func pluginRules() []rule {
	return []rule{
		{
			id: "plugin-silent", title: "RDMA plugin silent", severity: "critical", noData: "Alerting", slow: true,
			summary:  "{{ .Labels.host }}{{ with .Labels.instance }}, instance {{ . }},{{ end }} has stopped to report RDMA events",
			steps:    []step{{query: silence, from: 24 * time.Hour}},
			when:     "$RA == 0",
			promql:   `last_over_time(rdma:collector_uptime_seconds:max5m[1d]) unless on (host, plugin_instance) rdma_collector_uptime_seconds`,
			promHold: 5 * time.Minute,
			fires: "The host, or one of several instances on it, reported within the last day and has sent nothing for five to ten minutes; " +
				"or, without a host's name, no plugin has sent anything for a day.",
			quiet:  "Hosts that have been silent for more than a day, as those that were taken away.",
			clears: "When the host reports again. An instance that has got another name is silent under its old one for a day.",
			do: []string{
				"Is the host up? Does Telegraf run? Its log has the plugin's messages.",
				"Do other metrics of the host arrive? If not, it is Telegraf, the network or the database.",
			},
			blind: "Hosts that never reported.",
		},
		{
			id: "worker-down", title: "RDMA worker backing off or stuck", severity: "warning", hold: 2 * time.Minute, noData: quiet,
			summary: "The worker of {{ .Labels.device }} on {{ .Labels.host }} does not run",
			steps: []step{{
				query: `SELECT count("state") AS "down" FROM (SELECT last("worker_state") AS "state" FROM {rdma_device} WHERE {filter} GROUP BY ` +
					byDevice + `) WHERE $timeFilter AND ("state" = 'backing_off' OR "state" = 'stuck') GROUP BY ` + byDevice,
				from: window,
			}},
			promql: `max without (worker_state, reason) (rdma_device_status{worker_state=~"backing_off|stuck"} == 1)`,
			fires:  "For two minutes the device's worker has been waiting to be started again, or cannot be killed. No process reads the device's events.",
			quiet:  "A worker that dies and runs again. Devices that are missing, whose worker is stopped.",
			clears: "When the worker runs.",
			do: []string{
				"The field reason and the README's table: permissions, a missing provider library, limits.",
				"stuck: a thread of the worker hangs in the kernel, and `cat /proc/PID/stack` says where.",
			},
			blind: "The reason: the log and rdma_device have it.",
		},
		{
			id: "worker-restarts", title: "RDMA worker restarts", severity: "warning", noData: quiet, above: 2,
			summary: "The worker of {{ .Labels.device }} on {{ .Labels.host }} does not come to rest",
			steps:   []step{growth("crashes", "rdma_device", 30*time.Minute)},
			promql:  `increase(rdma_device_crashes_total[30m]) > 2.5`,
			fires:   "The device's worker ended three times or more within half an hour after it had opened the device.",
			quiet:   "One or two restarts: nothing is lost by them. A device that is refused again and again, which is worker-down.",
			clears:  "Half an hour after the last one.",
			do: []string{
				"The log names the signal and the verbs call in which it died.",
				"A crash in the provider library: report it with its version. Exclude the device until then with devices_exclude.",
			},
			blind: "Restarts of Telegraf and of the plugin itself.",
		},
	}
}
