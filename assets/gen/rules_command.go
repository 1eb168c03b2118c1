package gen

import "time"

// commandRules are about the calls that the firmware of a device has to answer.
func commandRules(o *Options) []rule {
	return []rule{
		{
			id: "command-stuck", title: "RDMA command stuck", panel: panelRef{deviceUID, 34},
			severity: "critical", hold: 30 * time.Second, noData: quiet,
			summary: "The firmware of {{ .Labels.device }} on {{ .Labels.host }} does not answer {{ .Labels.call }} of port {{ .Labels.port }}",
			steps: []step{{
				query: `SELECT last("stuck") AS "stuck" FROM {rdma_command} WHERE {filter} GROUP BY ` + byCall, from: o.window(),
			}},
			promql: `rdma_command_stuck == 1`,
			fires: "For half a minute a call that the device's firmware has to answer has been stuck: it lasts longer than evidence.command_stuck, " +
				"or three in a row ended without an answer. The port may be active and carry traffic, but what needs a command hangs or fails: " +
				"new connections, memory registrations, the end of jobs.",
			quiet:  "Calls that are slow and answered, which command-slow reports. Devices that are missing, which device-missing reports.",
			clears: "At the first call that is answered; when the device is gone, as in a reset.",
			do: []string{
				"The kernel log has what the driver knows: `dmesg | grep mlx5_core`, with the device's own driver; a command that timed out, an " +
					"assert of the firmware, a health check that failed.",
				"`devlink health show pci/0000:3b:00.0` with the device's own address: did a reporter see an error, and did it recover?",
				"How many other hosts with the same firmware are in the table of stuck commands on the Overview? One is a card, many are a release.",
				"Drain the host, then reset the device: `devlink dev reload`, or a restart of the host. To kill jobs or the plugin ends no call that hangs " +
					"in the kernel. Replace the card if it comes again.",
			},
			blind: "Drivers whose calls are no commands (rxe, siw, hfi1, cxgb4). With irdma the call succeeds late and with old values, so that the " +
				"alert comes and goes. With bnxt_re counters go on to succeed after a failure, so that its queue pairs are asked, and nothing without " +
				"a probe. All with evidence.command_interval = \"0s\".",
		},
		{
			id: "command-slow", title: "RDMA commands slow", panel: panelRef{deviceUID, 35},
			severity: "warning", hold: 10 * time.Minute, noData: quiet, above: 1e9,
			summary: "The firmware of {{ .Labels.device }} on {{ .Labels.host }} takes above 1 s for {{ .Labels.call }} of port {{ .Labels.port }}",
			steps: []step{{
				query: `SELECT "p99" FROM (SELECT last("took_ns_p99") AS "p99", last("stuck") AS "stuck" FROM {rdma_command} WHERE {filter}
					GROUP BY ` + byCall + `) WHERE "stuck" = 0 AND $timeFilter GROUP BY ` + byCall,
				from: o.window(),
			}},
			promql: `rdma_command_took_p99_seconds > 1 unless rdma_command_stuck == 1`,
			fires:  "For ten minutes the 99th percentile of how long the device's firmware takes for a call has been above 1 s.",
			quiet:  "Single slow calls, as while the device is reset or its firmware is updated. Calls that are stuck, which command-stuck reports.",
			clears: "When the slow calls have left the probe's window.",
			do: []string{
				"The kernel log and `devlink health show`, as for command-stuck: slow may become stuck.",
				"Who else asks the device? A monitoring agent that reads all counters each second, many virtual functions, jobs that register much memory.",
				"Compare with hosts of the same firmware: slow commands on the Overview.",
			},
			blind: "What command-stuck cannot see. Commands of applications, which wait behind these.",
		},
	}
}
