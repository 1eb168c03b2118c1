package alerts

import "time"

func probeAlerts() []Alert {
	return []Alert{
		{
			ID: "probe-errors", Title: "RDMA probe fails", Severity: Warning, Panel: Panel{DeviceBoard, 20},
			Measurement: "rdma_cq_probe", When: grew("errors", 3, 15*time.Minute),
			Text:    "vector {vector}, {method}: {errors} rounds in all failed",
			Summary: "Probe rounds of port {{ .Labels.port }} of {{ .Labels.device }} on {{ .Labels.host }} end with an error",
			Fires:   "In three probe rounds or more of a quarter of an hour a work completion had a bad status, or a verb failed.",
			Quiet:   "One or two rounds, as while a link comes up. Rounds without a completion, which lost-completions reports.",
			Clears:  "A quarter of an hour after the last one.",
			FirstSteps: []string{
				"The field status of rdma_cq_probe has the status of the last round: retry_exc_err is a packet that did not come back, " +
					"loc_prot_err and loc_qp_op_err are the driver or the library.",
				"`rdma-events doctor` says what the device and its library can do; then the versions of driver, library and firmware.",
			},
			Blind: "Queue pairs of applications.",
		},
		{
			ID: "lost-events", Title: "RDMA completion events lost", Severity: Warning, Panel: Panel{Overview, 34},
			Measurement: "rdma_cq_probe", When: grew("lost_events", 3, 15*time.Minute),
			Text:    "vector {vector}, {method}: {lost_events} completion events in all never came",
			Summary: "Vector {{ .Labels.vector }} of {{ .Labels.device }} on {{ .Labels.host }} loses completion events",
			Fires: "In three probe rounds or more of a quarter of an hour the completion was there and its event never came: the interrupt path. " +
				"Applications that sleep for completions hang.",
			Quiet:  "One or two rounds, as on a host without a CPU to spare. Rounds without a completion, which lost-completions reports.",
			Clears: "A quarter of an hour after the last one.",
			FirstSteps: []string{
				"/proc/interrupts: does the vector's line count? On which CPU, and is that one online?",
				"irqbalance and the affinity of the vector; then driver and firmware.",
			},
			Blind: "Vectors that are not probed: see the option vectors.",
		},
		{
			ID: "lost-completions", Title: "RDMA completions lost", Severity: Critical, Panel: Panel{Overview, 34},
			Measurement: "rdma_cq_probe", When: grew("lost_completions", 3, 15*time.Minute),
			Text:    "vector {vector}, {method}: {lost_completions} work requests in all never completed",
			Summary: "Port {{ .Labels.port }} of {{ .Labels.device }} on {{ .Labels.host }} completes no work",
			Fires:   "In three probe rounds or more of a quarter of an hour the work was posted and never completed: the device's own data path.",
			Quiet:   "One or two rounds. Rounds whose completion came without its event, which lost-events reports.",
			Clears:  "A quarter of an hour after the last one.",
			FirstSteps: []string{
				"The kernel log and the device's counters. Does a transfer of an application still work?",
				"Drain the host; reset the device; replace it if it comes again.",
			},
			Blind: "Cable and fabric: the probe's queue pair is connected to itself.",
		},
		{
			ID: "wake-slow", Title: "RDMA wake-up far slower than its past", Severity: Warning, Panel: Panel{DeviceBoard, 26},
			Elsewhere: "the wake-ups of hours",
			Hold:      10 * time.Minute,
			Slow:      true,
			Summary:   "Wake-ups on vector {{ .Labels.vector }} of {{ .Labels.device }} on {{ .Labels.host }} are far slower than they were",
			Fires: "For ten minutes the 99th percentile of wake-up latency has been above five times its mean of the three hours that ended an hour " +
				"ago, and above 200 us.",
			Quiet:  "Probes whose method has been in use for less than an hour; latencies below 200 us, where five times little is little.",
			Clears: "When it is fast again; or after one to two hours, when slow has become its past: look at the graph then.",
			FirstSteps: []string{
				"Device dashboard: one vector, or all? All devices of the host?",
				"What has changed on the CPU of that interrupt: load, power governor, idle states, a virtual machine's neighbours?",
			},
			Blind: "Cable and fabric. An idle host's wake-ups are slower than a busy one's, by its power states.",
		},
	}
}
