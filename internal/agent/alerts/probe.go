package alerts

import "time"

func probeAlerts() []Alert {
	return []Alert{
		{
			ID: "probe-errors", Title: "RDMA probe fails", Severity: Warning, Panel: Panel{DeviceDashboard, 20},
			Measurement: "rdma_cq_probe", When: grew("errors", 3, 15*time.Minute),
			Text:    "vector {vector}, {method}: {errors} rounds in all failed",
			Summary: "Probe rounds of port {{ .Labels.port }} of {{ .Labels.device }} on {{ .Labels.host }} end with an error",
			Fires:   "In three or more probe rounds within a quarter of an hour, a work completion had an error status or a verb failed.",
			Quiet:   "One or two rounds, as while a link comes up. Rounds without a completion, which lost-completions reports.",
			Clears:  "A quarter of an hour after the last one.",
			FirstSteps: []string{
				"The field status of rdma_cq_probe has the status of the last round: retry_exc_err means that a packet did not return, " +
					"loc_prot_err and loc_qp_op_err point to the driver or the library.",
				"`rdma-events doctor` says what the device and its library can do; then the versions of driver, library and firmware.",
			},
			Blind: "Queue pairs of applications.",
		},
		{
			ID: "lost-events", Title: "RDMA completion events lost", Severity: Warning, Panel: Panel{OverviewDashboard, 34},
			Measurement: "rdma_cq_probe", When: grew("lost_events", 3, 15*time.Minute),
			Text:    "vector {vector}, {method}: {lost_events} completion events in all never came",
			Summary: "Vector {{ .Labels.vector }} of {{ .Labels.device }} on {{ .Labels.host }} loses completion events",
			Fires: "In three or more probe rounds within a quarter of an hour, the completion was there and its event never arrived: the interrupt path " +
				"fails. Applications that sleep until a completion event hang.",
			Quiet:  "One or two rounds, for example without an idle CPU. Rounds without a completion, which lost-completions reports.",
			Clears: "A quarter of an hour after the last one.",
			FirstSteps: []string{
				"/proc/interrupts: does the count of the vector's line grow? On which CPU, and is that CPU online?",
				"Check irqbalance and the affinity of the vector, then driver and firmware.",
			},
			Blind: "Vectors that are not probed: see the option vectors.",
		},
		{
			ID: "lost-completions", Title: "RDMA completions lost", Severity: Critical, Panel: Panel{OverviewDashboard, 34},
			Measurement: "rdma_cq_probe", When: grew("lost_completions", 3, 15*time.Minute),
			Text:    "vector {vector}, {method}: {lost_completions} work requests in all never completed",
			Summary: "Port {{ .Labels.port }} of {{ .Labels.device }} on {{ .Labels.host }} completes no work",
			Fires: "In three or more probe rounds within a quarter of an hour, the work request was posted and never completed: the device's own data path " +
				"fails.",
			Quiet:  "One or two rounds. Rounds whose completion came without its event, which lost-events reports.",
			Clears: "A quarter of an hour after the last one.",
			FirstSteps: []string{
				"The kernel log and the device's counters. Does a transfer of an application still work?",
				"Drain the host, reset the device, and replace it if it happens again.",
			},
			Blind: "Cable and fabric: the probe's queue pair is connected to itself.",
		},
		{
			ID: "wake-slow", Title: "RDMA wake-up far slower than its past", Severity: Warning, Panel: Panel{DeviceDashboard, 26},
			Elsewhere: "the wake-ups of hours",
			Hold:      10 * time.Minute,
			Slow:      true,
			Summary:   "Wake-ups on vector {{ .Labels.vector }} of {{ .Labels.device }} on {{ .Labels.host }} are far slower than they were",
			Fires: "For ten minutes the 99th percentile of wake-up latency has been above five times its mean of the three hours that ended an hour " +
				"ago, and above 200 us.",
			Quiet: "Probes whose method has been in use for less than an hour. Latencies below 200 us.",
			Clears: "When the latency is low again; also after one to two hours, when the high latency has become part of the past it is compared with: look " +
				"at the graph then.",
			FirstSteps: []string{
				"Device dashboard: one vector, or all? All devices of the host?",
				"What has changed on the CPU of that interrupt: load, power governor, idle states, a virtual machine's neighbours?",
			},
			Blind: "Cable and fabric. Power states make wake-ups of an idle host slower than those of a busy one.",
		},
	}
}
