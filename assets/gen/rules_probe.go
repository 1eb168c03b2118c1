package gen

import "time"

func probeRules() []rule {
	return []rule{
		{
			id: "probe-errors", title: "RDMA probe fails", panel: panelRef{deviceUID, 20},
			severity: "warning", noData: quiet, above: 2,
			summary: "Probe rounds of port {{ .Labels.port }} of {{ .Labels.device }} on {{ .Labels.host }} end with an error",
			steps:   []step{growth("errors", "rdma_cq_probe", 15*time.Minute)},
			promql:  `increase(rdma_cq_probe_errors_total[15m]) > 2.5`,
			fires:   "In three probe rounds or more of a quarter of an hour a work completion had a bad status, or a verb failed.",
			quiet:   "One or two rounds, as while a link comes up. Rounds without a completion, which lost-completions reports.",
			clears:  "A quarter of an hour after the last one.",
			do: []string{
				"The field status of rdma_cq_probe has the status of the last round: retry_exc_err is a packet that did not come back, " +
					"loc_prot_err and loc_qp_op_err are the driver or the library.",
				"`rdma-events doctor` says what the device and its library can do; then the versions of driver, library and firmware.",
			},
			blind: "Queue pairs of applications.",
		},
		{
			id: "lost-events", title: "RDMA completion events lost", panel: panelRef{overviewUID, 34},
			severity: "warning", noData: quiet, above: 2,
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
			id: "lost-completions", title: "RDMA completions lost", panel: panelRef{overviewUID, 34},
			severity: "critical", noData: quiet, above: 2,
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
			id: "wake-slow", title: "RDMA wake-up far slower than its past", panel: panelRef{deviceUID, 26},
			severity: "warning", noData: quiet, slow: true, hold: 10 * time.Minute,
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
