package gen

import (
	"fmt"
	"time"
)

// silence returns, for each plugin, whether its last point is in the last two
// buckets: the mean number of last points in these buckets, which is 0 if the last
// point is older. It takes two buckets, because the last one may just have begun.
// The first bucket begins before the time range, so the outer query has no
// $timeFilter: it would leave no result (InfluxDB 1.8). Counting all points instead
// of the last one would read a day of points.
func (o *Options) silence() string {
	return `SELECT last("n") AS "n" FROM (SELECT moving_average(count("uptime"), 2) AS "n" FROM (SELECT last("uptime_ns") AS "uptime"
		FROM {rdma_collector} WHERE {filter} GROUP BY ` + byHost + `) WHERE $timeFilter GROUP BY time(` + short(o.recent()) + `), ` +
		byHost + ` fill(0)) GROUP BY ` + byHost
}

func (o *Options) pluginRules() []rule {
	return []rule{
		{
			id: "plugin-silent", title: "RDMA plugin silent", panel: panelRef{overviewUID, 9},
			severity: "critical", noData: "Alerting", slow: true,
			summary:  "{{ .Labels.host }}{{ with .Labels.instance }}, instance {{ . }},{{ end }} has stopped to report RDMA events",
			steps:    []step{{query: o.silence(), from: 24 * time.Hour}},
			when:     "$RA == 0",
			promql:   `last_over_time(` + reported + `[1d]) unless on (host, plugin_instance) rdma_collector_uptime_seconds`,
			promHold: o.recent(),
			fires: fmt.Sprintf("The host, or one of several instances on it, reported within the last day and has sent nothing for %d to %d minutes; "+
				"or, without a host's name, no plugin has sent anything for a day.", int(o.recent().Minutes()), int(2*o.recent().Minutes())),
			quiet:  "Hosts that have been silent for more than a day, as those that were taken away.",
			clears: "When the host reports again. An instance that has got another name is silent under its old one for a day.",
			do: []string{
				"Is the host up? Does Telegraf run? Its log has the plugin's messages.",
				"Do other metrics of the host arrive? If not, it is Telegraf, the network or the database.",
			},
			blind: "Hosts that never reported.",
		},
		{
			id: "worker-down", title: "RDMA worker backing off or stuck", panel: panelRef{overviewUID, 11},
			severity: "warning", hold: 2 * time.Minute, noData: quiet,
			summary: "The worker of {{ .Labels.device }} on {{ .Labels.host }} does not run",
			steps: []step{{
				query: `SELECT count("state") AS "down" FROM (SELECT last("worker_state") AS "state" FROM {rdma_device} WHERE {filter} GROUP BY ` +
					byDevice + `) WHERE $timeFilter AND ("state" = 'backing_off' OR "state" = 'stuck') GROUP BY ` + byDevice,
				from: o.window(),
			}},
			promql: `max without (worker_state, reason) (rdma_device_status{worker_state=~"backing_off|stuck"} == 1)`,
			fires:  "For two minutes the device's worker has been waiting to be started again, or cannot be killed. No process reads the device's events.",
			quiet:  "A worker that dies and runs again. Devices that are missing or unwatchable, whose worker is stopped.",
			clears: "When the worker runs.",
			do: []string{
				"The field reason and the README's table: permissions, a missing provider library, limits.",
				"stuck: a thread of the worker hangs in the kernel, and `cat /proc/PID/stack` says where.",
			},
			blind: "The reason: the log and rdma_device have it.",
		},
		{
			id: "worker-restarts", title: "RDMA worker restarts", panel: panelRef{deviceUID, 7},
			severity: "warning", noData: quiet, above: 2,
			summary: "The worker of {{ .Labels.device }} on {{ .Labels.host }} does not come to rest",
			steps:   []step{growth("crashes", "rdma_device", 30*time.Minute)},
			promql:  `increase(rdma_device_crashes_total[30m]) > 2.5`,
			fires:   "The device's worker ended three times or more within half an hour after it had opened the device.",
			quiet:   "One or two restarts: nothing is lost by them. A device that is refused again and again, which is worker-down.",
			clears:  "Half an hour after the last one.",
			do: []string{
				"The log names the signal and the verbs call in which it died.",
				"A crash in the provider library: report it with its version. Exclude the device until then with devices_exclude.",
			},
			blind: "Restarts of Telegraf and of the plugin itself.",
		},
		{
			id: "plugin-late", title: "RDMA plugin skips intervals", panel: panelRef{overviewUID, 27},
			severity: "warning", noData: quiet, above: 2,
			summary: "The plugin on {{ .Labels.host }} skips intervals",
			steps:   []step{growth("skipped_intervals", "rdma_collector", 30*time.Minute)},
			promql:  `increase(rdma_collector_skipped_intervals_total[30m]) > 2.5`,
			fires:   "Three times or more within half an hour Telegraf asked for metrics while the plugin's last ones were still waiting to be read.",
			quiet:   "One or two, as while the host is starved of CPU time. No event is lost by a skipped interval: counters go on.",
			clears:  "By itself, half an hour after the last one.",
			do: []string{
				"Telegraf's own metrics (input internal): an output that blocks, a full buffer, an interval that is too short.",
				"The host: is it short of CPU time or memory?",
			},
			blind: "What Telegraf itself drops.",
		},
		{
			id: "recorder-failing", title: "RDMA recorder fails", panel: panelRef{overviewUID, 43},
			severity: "warning", noData: quiet,
			summary: "The plugin on {{ .Labels.host }} cannot record all that happens",
			steps:   []step{{query: grownAny("rdma_collector", "record_errors", "record_lost"), from: 30 * time.Minute}},
			promql:  `increase(rdma_collector_record_errors_total[30m]) > 0.5 or increase(rdma_collector_record_lost_total[30m]) > 0.5`,
			fires: "Within half an hour a write of the recorder failed (record_errors), or a record was never written (record_lost). `rdma-events events` " +
				"may have a gap there, which it names. Metrics and alerts are complete.",
			quiet: "A plugin without a recorder's directory: it records nothing on purpose. Points of which more than 20 a second merged into one record, " +
				"with their count.",
			clears: "By itself, half an hour after the last one. The recorder tries the disk again every 60 s.",
			do: []string{
				"The plugin's log on the host has one line with the cause: no space, a read-only file system, a directory that is gone.",
				"`df /var/lib/rdma_events` and `dmesg` for errors of the disk. The recorder takes recorder.size_mib (64) and no more.",
				"record_lost without record_errors: the disk was slow for so long that 4,096 records waited.",
			},
			blind: "A recorder that could not begin, as where another process records in the directory: the log has a line, and the fields are not there.",
		},
		{
			id: "no-reports", title: "RDMA plugin reports nothing anywhere", panel: panelRef{overviewUID, 3},
			severity: "critical", promHold: 5 * time.Minute,
			summary: "No host reports RDMA events",
			promql:  `absent(rdma_collector_uptime_seconds)`,
			fires: "For five minutes Prometheus has had no series of any plugin: in Grafana's rules for InfluxDB this is the case of plugin-silent " +
				"without a host.",
			quiet:  "Single hosts, which plugin-silent reports.",
			clears: "When any host reports.",
			do: []string{
				"Prometheus' page of targets: are there any of the job? Do they answer?",
				"Were names or the tag filter of telegraf.conf changed?",
			},
			blind: "A Prometheus that does not run: let another one watch it.",
		},
	}
}
