package alerts

import "time"

func pluginAlerts() []Alert {
	return []Alert{
		{
			ID: "plugin-silent", Title: "RDMA plugin silent", Severity: Critical, Panel: Panel{OverviewDashboard, 9},
			Elsewhere: "a process that runs while the plugin does not",
			Slow:      true,
			Summary:   "{{ .Labels.host }}{{ with .Labels.instance }}, instance {{ . }},{{ end }} no longer reports RDMA events",
			Fires: "The host, or one of several instances on it, reported within the last day and has sent nothing for {silent_for}; or, without a " +
				"host's name, no plugin has sent anything for a day.",
			Quiet:  "Hosts that have been silent for more than a day, such as decommissioned ones.",
			Clears: "When the host reports again. A renamed instance is silent under its old name for a day.",
			FirstSteps: []string{
				"Is the host up? Does Telegraf run? Its log has the plugin's messages.",
				"Do other metrics of the host arrive? If not, the cause is Telegraf, the network or the database.",
			},
			Blind: "Hosts that never reported.",
		},
		{
			ID: "worker-down", Title: "RDMA worker backing off or stuck", Severity: Warning, Panel: Panel{OverviewDashboard, 11},
			Measurement: "rdma_device",
			When:        Unless{oneOf("worker_state", "backing_off", "stuck"), oneOf("reason", "node_missing")},
			Hold:        2 * time.Minute,
			Text:        "{reason}",
			Summary:     "The worker of {{ .Labels.device }} on {{ .Labels.host }} does not run",
			Fires: "For two minutes the device's worker has been waiting to be started again, or was killed and has not ended. No process reads " +
				"the device's events.",
			Quiet:  "A worker that dies and runs again. Missing or unwatchable devices, whose worker is stopped.",
			Clears: "When the worker runs.",
			FirstSteps: []string{
				"The field reason, for which docs/how-to/troubleshooting.md says what to do: permissions, a missing provider library, limits.",
				"stuck: the log says why the killed worker has not ended. If the kernel holds it, `cat /proc/PID/stack` shows where. Otherwise it gets no CPU time.",
			},
			Blind: "The reason: the log and rdma_device have it.",
		},
		{
			ID: "worker-restarts", Title: "RDMA worker restarts", Severity: Warning, Panel: Panel{DeviceDashboard, 7},
			Measurement: "rdma_device", When: grew("crashes", 3, 30*time.Minute),
			Text:    "the worker crashed, {crashes} in all",
			Summary: "The worker of {{ .Labels.device }} on {{ .Labels.host }} restarts again and again",
			Fires:   "The device's worker ended three times or more within half an hour after it had opened the device.",
			Quiet:   "One or two restarts, which lose nothing. A device that can never be opened, which worker-down reports.",
			Clears:  "Half an hour after the last one.",
			FirstSteps: []string{
				"The log names the signal and the verbs call in which it died.",
				"A worker that stopped responding although it was runnable probably gets too little CPU time: look for a limit of its cgroup and for real-time programs.",
				"A crash in the provider library: report it with its version. Exclude the device until then with devices_exclude.",
			},
			Blind: "Restarts of Telegraf and of the plugin itself.",
		},
		{
			ID: "plugin-late", Title: "RDMA plugin skips intervals", Severity: Warning, Panel: Panel{OverviewDashboard, 27},
			Measurement: "rdma_collector", When: grew("skipped_intervals", 3, 30*time.Minute),
			Text:    "{skipped_intervals} intervals were skipped, because Telegraf did not read",
			Summary: "The plugin on {{ .Labels.host }} skips intervals",
			Fires:   "Three times or more within half an hour Telegraf asked for metrics while the plugin's last ones were still waiting to be read.",
			Quiet:   "One or two, for example while the host lacks CPU time. A skipped interval loses no event: the counters continue.",
			Clears:  "By itself, half an hour after the last one.",
			FirstSteps: []string{
				"Telegraf's own metrics (input internal): an output that blocks, a full buffer, an interval that is too short.",
				"The host: is it short of CPU time or memory?",
			},
			Blind: "What Telegraf itself drops.",
		},
		{
			ID: "recorder-failing", Title: "RDMA recorder fails", Severity: Warning, Panel: Panel{OverviewDashboard, 43},
			Measurement: "rdma_collector", When: Grew{Fields: []string{"record_errors", "record_lost"}, By: 1, Within: 30 * time.Minute},
			Text:    "the recorder cannot write, {total} failed writes and lost records in all",
			Summary: "The recorder of the plugin on {{ .Labels.host }} fails or loses records",
			Fires: "Within half an hour a write of the recorder failed (record_errors), or a record was never written (record_lost). `rdma-events " +
				"events` may have a gap there, which it names. Metrics and alerts are complete.",
			Quiet: "A plugin without a directory for records, which records nothing on purpose. More than 20 points a second, which are merged into one " +
				"record with their count.",
			Clears: "By itself, half an hour after the last one. The recorder tries the disk again every 60 s.",
			FirstSteps: []string{
				"The plugin's log on the host has one line with the cause: no space, a read-only file system, a directory that is gone, or another " +
					"process that records in the directory. Give each plugin a recorder.directory of its own.",
				"Check `df /var/lib/rdma_events`, and `dmesg` for disk errors. The recorder uses at most recorder.size_mib (64).",
				"record_lost without record_errors: the disk was slow for so long that 4,096 records waited.",
			},
			Blind: "Records that the disk loses after it has confirmed the write.",
		},
		{
			ID: "no-reports", Title: "RDMA plugin reports nothing anywhere", Severity: Critical, Panel: Panel{OverviewDashboard, 3},
			Elsewhere: "a process that runs while the plugin does not",
			Summary:   "No host reports RDMA events",
			Fires: "For five minutes Prometheus has had no series of any plugin: in Grafana's rules for InfluxDB this is the case of plugin-silent " +
				"without a host.",
			Quiet:  "Single hosts, which plugin-silent reports.",
			Clears: "When any host reports.",
			FirstSteps: []string{
				"Prometheus' page of targets: does it list targets of the job? Do they answer?",
				"Were names or the tag filter of telegraf.conf changed?",
			},
			Blind: "A Prometheus that does not run: let another one watch it.",
		},
	}
}
