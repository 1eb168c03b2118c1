package alerts

import "time"

func deviceAlerts() []Alert {
	return []Alert{
		{
			ID: "device-missing", Title: "RDMA device missing", Severity: Critical, Panel: Panel{OverviewDashboard, 11},
			Measurement: "rdma_device",
			When:        Unless{equals("present", 0), oneOf("reason", "renamed", "reassigned", "deleted", "released", "unwatchable")},
			Hold:        time.Minute,
			Text:        "the device is missing",
			Summary:     "{{ .Labels.device }} is missing on {{ .Labels.host }}",
			Fires: "For a minute a device has been gone that was there since the plugin started, that this host remembers, or that the " +
				"configuration expects. A device that is missing since the host started is one of these.",
			Quiet: "A reset that ends within a minute. A renamed device, which is reported under its new name. A device whose PCI function was given " +
				"to another driver, such as vfio-pci, or to another RDMA device, such as that of a bond; if it is listed in expect, it is missing " +
				"nevertheless. A device that is released for maintenance (`rdma-events release`) or was unwatchable. A soft device (rxe, siw) that " +
				"was deleted, unless it is listed in expect or in a section expected. A device that a pod has borrowed: it is present, with reason " +
				"other_netns.",
			Clears: "When the device is back. If it was removed for good, run `rdma-events forget mlx5_1` and remove it from the configuration. A " +
				"virtual or scalable function that is not in the configuration is forgotten after an hour.",
			FirstSteps: []string{
				"`rdma link`, `lspci -nn`, and the kernel log: AER errors, a driver that was unloaded, firmware that does not answer.",
				"A virtual function may have been removed by the administrator or by the software that manages virtual functions.",
			},
			Blind: "Devices that this host has never seen and that the configuration does not expect.",
		},
		{
			ID: "devices-too-few", Title: "RDMA devices too few", Severity: Critical, Panel: Panel{OverviewDashboard, 11},
			Measurement: "rdma_collector", When: greaterThan("expected_missing", 0),
			Hold:    time.Minute,
			Text:    "devices are missing: {expected_missing_of}",
			Summary: "{{ .Labels.host }} has fewer RDMA devices than its configuration expects",
			Fires: "For a minute the host has had fewer devices that match a section expected of the configuration than the section's count, " +
				"perhaps since it started.",
			Quiet: "Devices that are released for maintenance (`rdma-events release`), and those that a pod has borrowed: they count as there. Virtual " +
				"and scalable functions that are not watched count neither way. Sections without a glob: device-missing names their devices.",
			Clears: "When as many devices match as the section counts. If the host has fewer on purpose, `rdma-events check -learn` prints the section " +
				"for its current state.",
			FirstSteps: []string{
				"`rdma-events status` lists the devices that are there; the field expected_missing_of has the section.",
				"`lspci -nn` on this host and on one of the same kind: is the PCI function there? If not, it is the card, its slot or its power.",
				"If the function is there without an RDMA device, the kernel log says why the driver could not start it.",
				"A device that has another name now matches no glob of the section: compare the names.",
			},
			Blind: "Which of the devices is missing. If the host remembers it, device-missing names it.",
		},
		{
			ID: "device-fatal", Title: "RDMA device fatal", Severity: Critical, Panel: Panel{DeviceDashboard, 6},
			Measurement: "rdma_device", When: grew("fatals", 1, 30*time.Minute),
			Text:    "device_fatal was raised, {fatals} in all",
			Summary: "{{ .Labels.device }} on {{ .Labels.host }} raised device_fatal",
			Fires: "device_fatal was raised within the last half hour: the driver has given up the device, and every application on it has lost its " +
				"context.",
			Quiet: "All other events. A device_fatal that the kernel raises because it moves the device to another network namespace, removes " +
				"its PCI function or gives it to another driver, or makes one device of the legs of a bond: fatals leaves it out, and " +
				"function-removed reports a removed function.",
			Clears: "Half an hour after the last one.",
			FirstSteps: []string{
				"The kernel log has the driver's reason. A device that is pulled out, or whose driver is unloaded, raises it too.",
				"Jobs that ran on the device have failed: drain the host until the device has been tested.",
			},
			Blind: "Drivers that raise no events (events_supported is 0).",
		},
		{
			ID: "node-missing", Title: "RDMA device without its node", Severity: Critical, Panel: Panel{OverviewDashboard, 11},
			Measurement: "rdma_device", When: oneOf("reason", "node_missing"),
			Hold:    time.Minute,
			Text:    "the file of its node in /dev/infiniband is missing: no application can open the device",
			Summary: "{{ .Labels.device }} on {{ .Labels.host }} has no file in /dev/infiniband",
			Fires: "For a minute the host has had no file for the device in /dev/infiniband, although the kernel has the device. No application " +
				"can open it.",
			Quiet: "Containers that were given the nodes of other devices only: there the device is unwatchable. Devices that nothing could open " +
				"anyway.",
			Clears: "When the file is there again.",
			FirstSteps: []string{
				"Restart udev or the service that creates the nodes; `rdma-events doctor` names the file and its device numbers.",
				"Did a program delete the file, or a container runtime mount over /dev/infiniband?",
			},
			Blind: "A file whose mode keeps applications from opening it: the doctor tries to open it only as its own user.",
		},
		{
			ID: "function-removed", Title: "RDMA PCI function removed", Severity: Warning, Panel: Panel{DeviceDashboard, 8},
			Measurement: "rdma_device", When: grew("function_removals", 1, 30*time.Minute),
			Text:    "its PCI function was removed, {function_removals} times in all",
			Summary: "The PCI function of {{ .Labels.device }} on {{ .Labels.host }} was removed",
			Fires: "Within half an hour the kernel removed the PCI function of the device. Applications that had the device open have lost it. This is " +
				"usual when the provider services the host of a virtual machine; each removal is counted.",
			Quiet:  "A device that disappears while its PCI function remains. Devices that are released for maintenance (`rdma-events release`).",
			Clears: "Half an hour after the last time. If the function does not come back within a minute, device-missing fires, which is critical.",
			FirstSteps: []string{
				"A virtual machine: did its host service or migrate it? The provider's maintenance events say so.",
				"Bare metal: the kernel log, for the slot's power, pciehp and AER errors.",
				"Do applications continue without a restart? If not, do not run jobs on hosts that are serviced this often.",
			},
			Blind: "Who removed it.",
		},
		{
			ID: "device-flapping", Title: "RDMA device comes and goes", Severity: Warning, Panel: Panel{DeviceDashboard, 8},
			Measurement: "rdma_device", When: grew("unplanned_removals", 3, 30*time.Minute),
			Text:    "the device went away and nothing says why, {unplanned_removals} times in all",
			Summary: "{{ .Labels.device }} on {{ .Labels.host }} comes and goes",
			Fires:   "Three times or more within half an hour the device disappeared while its PCI function remained, without a sign that this was intended.",
			Quiet: "One or two times, for example during a driver update. Devices that are released for maintenance, that were renamed, moved to another " +
				"network namespace or given to another driver. Removals of the PCI function, which function-removed reports.",
			Clears: "Half an hour after the last time.",
			FirstSteps: []string{
				"The kernel log: does the firmware fail and recover each time (`devlink health show`)? Or does a service load and unload the " +
					"driver?",
				"`rdma-events events` lists the times; compare them with the logs of other services.",
				"Drain the host: no application survives the loss of its device.",
			},
			Blind: "Devices that disappear and return so fast that neither sysfs nor the kernel's messages show it.",
		},
		{
			ID: "pcie-degraded", Title: "RDMA device on a degraded PCIe link", Severity: Warning, Panel: Panel{DeviceDashboard, 9},
			Measurement: "rdma_device",
			When:        Any{lessThanField("pcie_speed_gts", "pcie_speed_best_gts"), lessThanField("pcie_width", "pcie_width_best")},
			Hold:        5 * time.Minute,
			Text:        "PCIe {pcie_speed_gts} GT/s x{pcie_width}, and both ends support {pcie_speed_best_gts} GT/s x{pcie_width_best}",
			Summary:     "The PCIe link of {{ .Labels.device }} on {{ .Labels.host }} is slower than both of its ends support",
			Fires: "For five minutes the device's PCIe link has had a lower speed or fewer lanes than both of its ends support. It may have been " +
				"so since the host started.",
			Quiet:  "Links that are as fast as the slower of both ends. Virtual functions and virtual machines, which do not show the link.",
			Clears: "When the link is trained again at full speed and width, which usually takes a restart of the host.",
			FirstSteps: []string{
				"`lspci -vv` shows LnkCap and LnkSta of the device and of the bridge above it.",
				"The kernel log has messages of bandwidth that is limited by a link, and AER errors.",
				"Power the host down, and reseat the card or its riser. The next time move the card to another slot, to tell the card from the " +
					"slot.",
			},
			Blind: "A bottleneck further up, as at a PCIe switch that several devices share.",
		},
		{
			ID: "unacked-events", Title: "RDMA events unacknowledged", Severity: Warning, Panel: Panel{DeviceDashboard, 17},
			Measurement: "rdma_async", When: Any{grew("released", 1, 30*time.Minute), greaterThan("unacked", 0)},
			HoldsAStaleValue: true,
			Hold:             3 * time.Minute,
			Text:             "{unacked} events are not acknowledged, and {released} in all were freed by their worker's death",
			Summary:          "Events of {{ .Labels.device }} on {{ .Labels.host }} are not acknowledged",
			Fires: "Events were read and not acknowledged. Either their worker died or was killed within the last half hour while it held them " +
				"(released), or events have been unacknowledged for three minutes. Until an event is acknowledged, a call that destroys its object " +
				"blocks.",
			Quiet:  "An acknowledgement that takes some seconds and returns. A worker that dies without unacknowledged events.",
			Clears: "Half an hour after the last one, or when the plugin restarts.",
			FirstSteps: []string{
				"The log of Telegraf names the verbs call in which the worker was.",
				"If it is always the same call, the cause is the provider library or the driver: report it with their versions.",
			},
			Blind: "Acknowledgements of applications.",
		},
	}
}
