package alerts

import "time"

func deviceAlerts() []Alert {
	return []Alert{
		{
			ID: "device-missing", Title: "RDMA device missing", Severity: Critical, Panel: Panel{Overview, 11},
			Measurement: "rdma_device",
			When:        Unless{is("present", 0), oneOf("reason", "renamed", "reassigned", "deleted", "released", "unwatchable")},
			Hold:        time.Minute,
			Text:        "the device is missing",
			Summary:     "{{ .Labels.device }} is missing on {{ .Labels.host }}",
			Fires: "For a minute a device has been gone that was there since the plugin started, that this host remembers, or that the " +
				"configuration expects. A device that is missing since the host started is one of these.",
			Quiet: "A reset that is over within a minute. A device that was renamed: it goes on under its new name. One whose PCI function was " +
				"given to another driver, as vfio-pci, or to another RDMA device, as that of a bond. One of expect is missing in both cases. One " +
				"that is released for maintenance (`rdma-events release`), or that was unwatchable. A soft device (rxe, siw) that was deleted: one " +
				"of expect or of a section expected is missing. One that a pod has borrowed: it is present, with reason other_netns.",
			Clears: "When the device is back. If it was taken out for good: `rdma-events forget mlx5_1`, and no entry for it in the configuration.",
			FirstSteps: []string{
				"`rdma link`, `lspci -nn`, and the kernel log: AER errors, a driver that was unloaded, firmware that does not answer.",
				"A virtual function may have been taken away by whoever manages them.",
			},
			Blind: "Devices that this host has never seen and that the configuration does not expect.",
		},
		{
			ID: "devices-too-few", Title: "RDMA devices too few", Severity: Critical, Panel: Panel{Overview, 11},
			Measurement: "rdma_collector", When: above("expected_missing", 0),
			Hold:    time.Minute,
			Text:    "devices are missing: {expected_missing_of}",
			Summary: "{{ .Labels.host }} has fewer RDMA devices than its configuration expects",
			Fires: "For a minute the host has had fewer devices that match a section expected of the configuration than the section's count, " +
				"perhaps since it started.",
			Quiet: "Devices that are released for maintenance (`rdma-events release`), and those that a pod has borrowed: they count as there. Virtual " +
				"and scalable functions that are not watched count neither way. Sections without a glob: device-missing names their devices.",
			Clears: "When as many devices match as the section counts. If the host is to have fewer: `rdma-events check -learn` prints the section " +
				"for the host as it is.",
			FirstSteps: []string{
				"`rdma-events status` lists the devices that are there; the field expected_missing_of has the section.",
				"`lspci -nn` on this host and on one of the same kind: is the PCI function there? If not, it is the card, its slot or its power.",
				"The function is there, without an RDMA device: the kernel log says why the driver could not start it.",
				"A device that has another name now matches no glob of the section: compare the names.",
			},
			Blind: "Which of the devices is missing. If the host remembers it, device-missing names it.",
		},
		{
			ID: "device-fatal", Title: "RDMA device fatal", Severity: Critical, Panel: Panel{DeviceBoard, 6},
			Measurement: "rdma_device", When: grew("fatals", 1, 30*time.Minute),
			Text:    "device_fatal was raised, {fatals} in all",
			Summary: "{{ .Labels.device }} on {{ .Labels.host }} raised device_fatal",
			Fires: "device_fatal was raised within the last half hour: the driver gave the device up, and every application on it has lost its " +
				"context.",
			Quiet: "All other events. A device_fatal that the kernel raises because it moves the device to another network namespace or removes " +
				"its PCI function: fatals leaves it out, and function-removed reports the latter.",
			Clears: "Half an hour after the last one.",
			FirstSteps: []string{
				"The kernel log has the driver's reason. A device that is pulled out, or whose driver is unloaded, raises it too.",
				"Jobs that ran on the device have failed: drain the host until the device has been tested.",
			},
			Blind: "Drivers that raise no events (events_supported is 0).",
		},
		{
			ID: "node-missing", Title: "RDMA device without its node", Severity: Critical, Panel: Panel{Overview, 11},
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
				"Restart udev or what else makes the nodes; `rdma-events doctor` names the file and its numbers.",
				"Did a program delete the file, or a container runtime mount over /dev/infiniband?",
			},
			Blind: "A file with other rights than applications need: the doctor tries only as the user that it runs as.",
		},
		{
			ID: "function-removed", Title: "RDMA PCI function removed", Severity: Warning, Panel: Panel{DeviceBoard, 8},
			Measurement: "rdma_device", When: grew("function_removals", 1, 30*time.Minute),
			Text:    "its PCI function was removed, {function_removals} times in all",
			Summary: "The PCI function of {{ .Labels.device }} on {{ .Labels.host }} was removed",
			Fires: "Within half an hour the kernel removed the PCI function that the device goes with. Applications that had the device open have " +
				"lost it. It is usual where the host of a virtual machine services it, and each time is counted.",
			Quiet:  "A device that goes and whose PCI function stays. Devices that are released for maintenance (`rdma-events release`).",
			Clears: "Half an hour after the last time. If the function does not come back within a minute, device-missing fires, which is critical.",
			FirstSteps: []string{
				"A virtual machine: did its host service or migrate it? The provider's maintenance events say so.",
				"Bare metal: the kernel log, for the slot's power, pciehp and AER errors.",
				"Do applications go on without a restart? If not, jobs should not run on hosts that are serviced this often.",
			},
			Blind: "Who removed it.",
		},
		{
			ID: "device-flapping", Title: "RDMA device comes and goes", Severity: Warning, Panel: Panel{DeviceBoard, 8},
			Measurement: "rdma_device", When: grew("unplanned_removals", 3, 30*time.Minute),
			Text:    "the device went away and nothing says why, {unplanned_removals} times in all",
			Summary: "{{ .Labels.device }} on {{ .Labels.host }} comes and goes",
			Fires:   "Three times or more within half an hour the device went away, its PCI function stayed, and nothing says that this was intended.",
			Quiet: "Once or twice, as while a driver is updated. Devices that are released for maintenance, that were renamed, moved to another " +
				"network namespace or given to another driver. Removals of the PCI function, which function-removed reports.",
			Clears: "Half an hour after the last time.",
			FirstSteps: []string{
				"The kernel log: does the firmware fail and recover each time (`devlink health show`)? Or does a service load and unload the " +
					"driver?",
				"`rdma-events events` has the moments; compare with the logs of what runs at these.",
				"Drain the host: no application survives it.",
			},
			Blind: "Devices that go and come back so fast that neither sysfs nor the kernel's messages show it.",
		},
		{
			ID: "pcie-degraded", Title: "RDMA device on a degraded PCIe link", Severity: Warning, Panel: Panel{DeviceBoard, 9},
			Measurement: "rdma_device",
			When:        Any{belowField("pcie_speed_gts", "pcie_speed_best_gts"), belowField("pcie_width", "pcie_width_best")},
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
			ID: "unacked-events", Title: "RDMA events unacknowledged", Severity: Warning, Panel: Panel{DeviceBoard, 17},
			Measurement: "rdma_async", When: Any{grew("released", 1, 30*time.Minute), above("unacked", 0)},
			HoldsAStaleValue: true,
			Hold:             3 * time.Minute,
			Text:             "{unacked} events are not acknowledged, and {released} in all were freed by their worker's death",
			Summary:          "Events of {{ .Labels.device }} on {{ .Labels.host }} are not acknowledged",
			Fires: "Events were read and never acknowledged: their worker died or was killed while it held them (released), within half an hour; or " +
				"there have been unacknowledged ones for three minutes. While an event is not acknowledged, whoever destroys the object that it is " +
				"about waits.",
			Quiet:  "An acknowledgement that takes some seconds and returns. A worker that dies with nothing in its hands.",
			Clears: "Half an hour after the last one, or when the plugin restarts.",
			FirstSteps: []string{
				"The log of Telegraf names the verbs call in which the worker was.",
				"The same call again and again: the provider library or the driver; report it with their versions.",
			},
			Blind: "Acknowledgements of applications.",
		},
	}
}
