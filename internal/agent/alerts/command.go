package alerts

import "time"

func commandAlerts() []Alert {
	return []Alert{
		{
			ID: "command-stuck", Title: "RDMA command stuck", Severity: Critical, Panel: Panel{DeviceBoard, 34},
			Measurement: "rdma_command", When: is("stuck", 1),
			Hold:    30 * time.Second,
			Text:    "the firmware does not answer {call}",
			Summary: "The firmware of {{ .Labels.device }} on {{ .Labels.host }} does not answer {{ .Labels.call }} of port {{ .Labels.port }}",
			Fires: "For half a minute a call that the device's firmware has to answer has been stuck: it lasts longer than evidence.command_stuck, " +
				"or three in a row ended without an answer. The port may be active and carry traffic, but what needs a command hangs or fails: new " +
				"connections, memory registrations, the end of jobs.",
			Quiet:  "Calls that are slow and answered, which command-slow reports. Devices that are missing, which device-missing reports.",
			Clears: "At the first call that is answered; when the device is gone, as in a reset.",
			FirstSteps: []string{
				"The kernel log has what the driver knows: `dmesg | grep mlx5_core`, with the device's own driver; a command that timed out, an " +
					"assert of the firmware, a health check that failed.",
				"`devlink health show pci/0000:3b:00.0` with the device's own address: did a reporter see an error, and did it recover?",
				"How many other hosts with the same firmware are in the table of stuck commands on the Overview? One is a card, many are a release.",
				"Drain the host, then reset the device: `devlink dev reload`, which ends the connections of all applications on the device, or a " +
					"restart of the host. To kill jobs or the plugin ends no call that hangs in the kernel. Replace the card if it comes again.",
			},
			Blind: "Drivers whose calls are no commands (rxe, siw, hfi1, cxgb4). With irdma the call succeeds late and with old values, so that " +
				"the alert comes and goes. With bnxt_re counters go on to succeed after a failure, so that its queue pairs are asked, and " +
				"nothing without a probe. All with evidence.command_interval = \"0s\".",
		},
		{
			ID: "command-slow", Title: "RDMA commands slow", Severity: Warning, Panel: Panel{DeviceBoard, 35},
			Measurement: "rdma_command", When: Unless{above("took_ns_p99", 1e9), is("stuck", 1)},
			Hold:    10 * time.Minute,
			Text:    "the firmware takes {took_ns_p99} for {call} (p99)",
			Summary: "The firmware of {{ .Labels.device }} on {{ .Labels.host }} takes above 1 s for {{ .Labels.call }} of port {{ .Labels.port }}",
			Fires:   "For ten minutes the 99th percentile of how long the device's firmware takes for a call has been above 1 s.",
			Quiet:   "Single slow calls, as while the device is reset or its firmware is updated. Calls that are stuck, which command-stuck reports.",
			Clears:  "When the slow calls have left the probe's window.",
			FirstSteps: []string{
				"The kernel log and `devlink health show`, as for command-stuck: slow may become stuck.",
				"Who else asks the device? A monitoring agent that reads all counters each second, many virtual functions, jobs that register much " +
					"memory.",
				"Compare with hosts of the same firmware: slow commands on the Overview.",
			},
			Blind: "What command-stuck cannot see. Commands of applications, which wait behind these.",
		},
	}
}
