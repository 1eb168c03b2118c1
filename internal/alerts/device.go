package alerts

import "time"

func deviceAlerts() []Alert {
	return []Alert{
		{
			ID: "device-missing", Title: "RDMA device missing", Severity: Critical, Panel: Panel{Overview, 11},
			Measurement: "rdma_device",
			When:        Unless{is("present", 0), oneOf("reason", "renamed", "reassigned", "released", "unwatchable")},
			Hold:        time.Minute,
			Text:        "the device is missing",
			Summary:     "{{ .Labels.device }} is missing on {{ .Labels.host }}",
			Fires: "For a minute a device has been gone that was there since the plugin started, that this host remembers, or that the " +
				"configuration expects. A device that is missing since the host started is one of these.",
			Quiet: "A reset that is over within a minute. A device that was renamed: it goes on under its new name. One whose PCI function was " +
				"given to another driver, as vfio-pci, or to another RDMA device, as that of a bond. One of expect is missing in both cases. One " +
				"that is released for maintenance (`rdma-events release`), or that was unwatchable. One that a pod has borrowed: it is present, " +
				"with reason other_netns.",
			Clears: "When the device is back. If it was taken out for good: `rdma-events forget mlx5_1`, and no entry for it in the configuration.",
			FirstSteps: []string{
				"`rdma link`, `lspci`, and the kernel log: AER errors, a driver that was unloaded, firmware that does not answer.",
				"A virtual function may have been taken away by whoever manages them.",
			},
			Blind: "Devices that this host has never seen and that the configuration does not expect.",
		},
		{
			ID: "device-fatal", Title: "RDMA device fatal", Severity: Critical, Panel: Panel{DeviceBoard, 6},
			Measurement: "rdma_device", When: grew("fatals", 1, 30*time.Minute),
			Text:    "device_fatal was raised, {fatals} in all",
			Summary: "{{ .Labels.device }} on {{ .Labels.host }} raised device_fatal",
			Fires: "device_fatal was raised within the last half hour: the driver gave the device up, and every application on it has lost its " +
				"context.",
			Quiet: "All other events. A device_fatal that the kernel raises because it moves the device to another network namespace: fatals leaves " +
				"it out.",
			Clears: "Half an hour after the last one.",
			FirstSteps: []string{
				"The kernel log has the driver's reason. A device that is pulled out, or whose driver is unloaded, raises it too.",
				"Jobs that ran on the device have failed: drain the host until the device has been tested.",
			},
			Blind: "Drivers that raise no events (events_supported is 0).",
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
