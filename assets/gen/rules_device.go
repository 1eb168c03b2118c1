package gen

import "time"

func (o *Options) deviceRules() []rule {
	return []rule{
		{
			id: "device-missing", title: "RDMA device missing", panel: panelRef{overviewUID, 11},
			severity: "critical", hold: time.Minute, noData: quiet,
			summary: "{{ .Labels.device }} is missing on {{ .Labels.host }}",
			steps: []step{{
				// The reason may change after the device has gone, so the last one counts.
				query: `SELECT last("present") AS "present" FROM (SELECT last("present") AS "present", last("reason") AS "reason" ` +
					`FROM {rdma_device} WHERE {filter} GROUP BY ` + byDevice + `) WHERE $timeFilter ` +
					`AND "reason" != 'renamed' AND "reason" != 'reassigned' AND "reason" != 'released' AND "reason" != 'unwatchable' GROUP BY ` + byDevice,
				from: o.window(),
			}},
			when:   "$RA == 0",
			promql: `rdma_device_present == 0 unless on (host, device, plugin_instance) rdma_device_status{reason=~"renamed|reassigned|released|unwatchable"} == 1`,
			fires:  "The device was there since the plugin started, or is in its option expect, and has been gone for a minute.",
			quiet: "A reset that is over within a minute. A device that was renamed: it goes on under its new name. One whose PCI " +
				"function was given to another driver, as vfio-pci, or to another RDMA device, as that of a bond. One of expect is missing in both cases. " +
				"One that is released for maintenance (`rdma-events release`), or that was unwatchable. One that a pod has borrowed: it is present, " +
				"with reason other_netns.",
			clears: "When the device is back; or when the plugin restarts, unless the device is in expect. List there what must not be missing.",
			do: []string{
				"`rdma link`, `lspci`, and the kernel log: AER errors, a driver that was unloaded, firmware that does not answer.",
				"A virtual function may have been taken away by whoever manages them.",
			},
			blind: "Devices that were gone before the plugin started and are not in expect.",
		},
		{
			id: "device-fatal", title: "RDMA device fatal", panel: panelRef{deviceUID, 6},
			severity: "critical", noData: quiet,
			summary: "{{ .Labels.device }} on {{ .Labels.host }} raised device_fatal",
			steps:   []step{growth("fatals", "rdma_device", 30*time.Minute)},
			promql:  `increase(rdma_device_fatals_total[30m]) > 0.5`,
			fires:   "device_fatal was raised within the last half hour: the driver gave the device up, and every application on it has lost its context.",
			quiet:   "All other events. A device_fatal that the kernel raises because it moves the device to another network namespace: fatals leaves it out.",
			clears:  "Half an hour after the last one.",
			do: []string{
				"The kernel log has the driver's reason. A device that is pulled out, or whose driver is unloaded, raises it too.",
				"Jobs that ran on the device have failed: drain the host until the device has been tested.",
			},
			blind: "Drivers that raise no events (events_supported is 0).",
		},
		{
			id: "unacked-events", title: "RDMA events unacknowledged", panel: panelRef{deviceUID, 17},
			severity: "warning", noData: quiet, hold: o.window(),
			summary: "Events of {{ .Labels.device }} on {{ .Labels.host }} are not acknowledged",
			steps: []step{{
				query: `SELECT max("n") AS "events" FROM
					(SELECT last("released") - min("released") AS "n" FROM {rdma_async} WHERE {filter} GROUP BY ` + byPort + `),
					(SELECT last("unacked") AS "n" FROM {rdma_async} WHERE {filter} GROUP BY ` + byPort + `)
					WHERE "n" > 0 AND $timeFilter GROUP BY ` + byPort,
				from: 30 * time.Minute,
			}},
			promql: `increase(rdma_async_released_total[30m]) > 0.5 or rdma_async_unacked > 0`,
			fires: "Events were read and never acknowledged: their worker died or was killed while it held them (released), within half an hour; or " +
				"there have been unacknowledged ones for three minutes. While an event is not acknowledged, whoever destroys the object that it " +
				"is about waits.",
			quiet:  "An acknowledgement that takes some seconds and returns. A worker that dies with nothing in its hands.",
			clears: "Half an hour after the last one, or when the plugin restarts.",
			do: []string{
				"The log of Telegraf names the verbs call in which the worker was.",
				"The same call again and again: the provider library or the driver; report it with their versions.",
			},
			blind: "Acknowledgements of applications.",
		},
	}
}
