package gen

import "time"

// fallen are the ports that are down and were active within the last day. The recording rule runs each five
// minutes, so the last minutes are read as they are.
const fallen = `rdma_port_up{expected!="down"} == 0
	and (max_over_time(rdma_port_up[10m]) == 1 or max_over_time(rdma:port_up:max5m[1d]) == 1)`

// slowed are the ports that are active and slower than they were. What is recorded every five minutes is looked for in ten,
// since an evaluation that came a little late would begin the alert's wait anew.
const slowed = `rdma_port_up == 1 and (rdma_port_rate_bytes_per_second < rdma_port_rate_best_bytes_per_second
	or rdma_port_rate_bytes_per_second < last_over_time(rdma:port_rate_bytes_per_second:max7d[10m]))`

func (o *Options) portRules() []rule {
	return []rule{
		{
			id: "port-down", title: "RDMA port down", panel: panelRef{overviewUID, 10},
			severity: "critical", hold: time.Minute, noData: quiet,
			summary: "Port {{ .Labels.port }} of {{ .Labels.device }} on {{ .Labels.host }} is down",
			steps: []step{
				{query: `SELECT last("up") AS "up" FROM {rdma_port} WHERE {filter} AND "expected" != 'down' GROUP BY ` + byPort, from: o.window()},
				// A query for any point would read the points of a day. InfluxDB finds the last point without that.
				{
					query: `SELECT last("up") AS "up" FROM {rdma_port} WHERE {filter} AND "expected" != 'down' AND "up" = 1 GROUP BY ` + byPort,
					from:  24 * time.Hour,
				},
			},
			when:   "$RA == 0 && $RB == 1",
			promql: fallen,
			fires: "The port is not active now and was active within the last day, so a restart of Telegraf or of the host during the outage " +
				"does not silence it.",
			quiet: "Ports of expected_down; ports that have not been active for a day, as unused ones; drops shorter than a minute; " +
				"ports of devices that are missing, which device-missing reports.",
			clears: "When the port is active again, or has been down for a day.",
			do: []string{
				"Look at the Device dashboard: one port, or all of the device? One device, or all behind a switch (Overview)?",
				"The cause, where it is certain, is in rdma_evidence, on the Device dashboard, and in `rdma-events events` on the host.",
				"On the host: `rdma link`, `ip link`, `ethtool -m` for the transceiver. The field phys_state_name shows whether a link is polling or disabled.",
				"InfiniBand in state init or armed has a link and waits for a subnet manager.",
				"If it is down by design, add it to expected_down.",
			},
			blind: "A port whose device is not open. A bond may hide the loss of one leg from its own port: legs_up of rdma_port has it.",
		},
		o.portsDownTogether(),
		o.smUnstable(),
		{
			id: "port-flapping", title: "RDMA port flapping", panel: panelRef{overviewUID, 12},
			severity: "warning", noData: quiet, above: 2,
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
			id: "link-slow", title: "RDMA link slower than it was", panel: panelRef{deviceUID, 14},
			severity: "warning", hold: 5 * time.Minute, noData: quiet,
			summary: "Port {{ .Labels.port }} of {{ .Labels.device }} on {{ .Labels.host }} came back slower",
			steps: []step{{
				query: `SELECT "best" - "rate" AS "less" FROM (SELECT last("rate_gbps") AS "rate", last("rate_best_gbps") AS "best",
					last("up") AS "up" FROM {rdma_port} WHERE {filter} GROUP BY ` + byPort + `) WHERE "up" = 1 AND $timeFilter GROUP BY ` + byPort,
				from: o.window(),
			}},
			promql: slowed,
			fires: "For five minutes the port has been active with a lower rate than its best since the plugin started. Prometheus also " +
				"remembers the best of seven days, over restarts.",
			quiet:  "Ports that are down. Ports that have always been slow, as those of a storage adapter.",
			clears: "When the rate is back; or when the plugin restarts (Prometheus: after seven days), if the link is to stay as it is.",
			do: []string{
				"Compare width with that before (rdma_attr_change has both): fewer lanes are a cable or a transceiver, the same lanes a speed that " +
					"was negotiated anew.",
				"`ethtool -m`, the switch's port counters; reseat or replace the cable; look at what the switch port is set to.",
			},
			blind: "A link that came up slow before the plugin started. What the link carries: this is what it could carry.",
		},
		{
			id: "link-disagrees", title: "RDMA link counter and events disagree", panel: panelRef{deviceUID, 12},
			severity: "warning", noData: quiet,
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
			id: "gid-moved", title: "RDMA GID moved", panel: panelRef{deviceUID, 11},
			severity: "warning", noData: quiet,
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
