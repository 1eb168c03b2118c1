package alerts

import "time"

func commandAlerts() []Alert {
	return []Alert{
		{
			ID: "command-stuck", Title: "RDMA command stuck", Severity: Critical, Panel: Panel{DeviceDashboard, 34},
			Measurement: "rdma_command", When: equals("stuck", 1),
			Hold:    30 * time.Second,
			Text:    "the firmware does not answer {call}",
			Summary: "The firmware of {{ .Labels.device }} on {{ .Labels.host }} does not answer {{ .Labels.call }} of port {{ .Labels.port }}",
			Fires: "For half a minute a call that the device's firmware must answer has been stuck: it has lasted longer than evidence.command_stuck, " +
				"or three consecutive calls ended without an answer. The port may be active and carry traffic, but operations that need a command " +
				"hang or fail: new connections, memory registrations, the end of jobs.",
			Quiet:  "Slow calls that are answered, which command-slow reports. Devices that are missing, which device-missing reports.",
			Clears: "At the first call that is answered; when the device is gone, as in a reset.",
			FirstSteps: []string{
				"Read the driver's messages in the kernel log: `dmesg | grep mlx5_core`, with the name of the device's driver. Look for a command " +
					"timeout, a firmware assert or a failed health check.",
				"`devlink health show pci/0000:3b:00.0` with the device's own address: did a reporter see an error, and did it recover?",
				"How many other hosts with the same firmware are in the table of stuck commands on the Overview? One host points to the card, many " +
					"to the firmware release.",
				"Drain the host, then reset the device: `devlink dev reload`, which ends the connections of all applications on the device, or a " +
					"restart of the host. Killing jobs or the plugin does not end a call that hangs in the kernel. Replace the card if it happens again.",
			},
			Blind: "Drivers whose calls are not firmware commands (rxe, siw, hfi1, cxgb4). With irdma the call succeeds late and with old values, so " +
				"that the alert fires and clears repeatedly. With bnxt_re reading counters still succeeds after a failure, so the plugin queries the " +
				"probe's queue pair instead, and nothing without a probe. All devices if evidence.command_interval = \"0s\".",
		},
		{
			ID: "command-slow", Title: "RDMA commands slow", Severity: Warning, Panel: Panel{DeviceDashboard, 35},
			Measurement: "rdma_command", When: Unless{greaterThan("took_ns_p99", 1e9), equals("stuck", 1)},
			Hold:    10 * time.Minute,
			Text:    "the firmware takes {took_ns_p99} for {call} (p99)",
			Summary: "The firmware of {{ .Labels.device }} on {{ .Labels.host }} takes above 1 s for {{ .Labels.call }} of port {{ .Labels.port }}",
			Fires:   "For ten minutes the 99th percentile of the time that the device's firmware takes for a call has been above 1 s.",
			Quiet:   "Single slow calls, for example during a reset or a firmware update. Calls that are stuck, which command-stuck reports.",
			Clears:  "When the slow calls have left the probe's window.",
			FirstSteps: []string{
				"The kernel log and `devlink health show`, as for command-stuck: slow commands may become stuck.",
				"What else sends commands to the device? A monitoring agent that reads all counters each second, many virtual functions, jobs that " +
					"register much memory.",
				"Compare with hosts of the same firmware: slow commands on the Overview.",
			},
			Blind: "Everything that command-stuck cannot see. Commands of applications, which wait behind those of the plugin.",
		},
	}
}
