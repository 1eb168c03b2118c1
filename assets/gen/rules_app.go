package gen

import (
	"strings"
	"time"

	"rdma_events/internal/status"
	"rdma_events/internal/trace"
	"rdma_events/internal/verbs"
)

// errorTypes returns the types of events that say that something of an application has failed, as alternatives of a
// regular expression.
func errorTypes() string {
	var names []string
	for _, scope := range []verbs.Scope{verbs.ScopeDevice, verbs.ScopeCQ, verbs.ScopeQP, verbs.ScopeSRQ, verbs.ScopeWQ} {
		for _, t := range verbs.EventTypes(scope) {
			if trace.IsError(t) {
				names = append(names, t.String())
			}
		}
	}
	return strings.Join(names, "|")
}

// These leave out the plugin's own workers, which read each event to report it: in PromQL with a comma at the end.
const (
	notOwnText = ` AND "app" != '` + status.WorkerComm + `'`
	notOwnProm = `app!="` + status.WorkerComm + `",`
)

// errorEvents is the condition of InfluxQL for these types.
func errorEvents() string { return ` AND "event" =~ /^(` + errorTypes() + `)$/` }

// appErrors are the counters of these types, in Prometheus. filter ends with a comma, or is "".
func appErrors(filter string) string {
	return `rdma_app_async_events_total{` + filter + `event=~"` + errorTypes() + `"}`
}

// recentAppErrors are the error events of half an hour, by series. A series begins with the application's first event,
// which may be an error, and what a counter begins with is no growth. So one that was not there half an hour ago counts as
// a whole if the counter of its host has grown: that one begins with the plugin.
func recentAppErrors(filter string) string {
	of := appErrors(filter)
	return `(sum without (event) (increase(` + of + `[30m])) > 0.5
		or (sum without (event) (` + of + `) > 0 unless sum without (event) (` + of + ` offset 30m))
		and on (host, plugin_instance) increase(rdma_host_app_errors_total[30m]) > 0.5)`
}

// blinded are the tracers that are not attached and were within the last day. As with ports that fall, the last minutes are
// read as they are.
const blinded = `rdma_tracer_attached == 0
	and (max_over_time(rdma_tracer_attached[10m]) == 1 or max_over_time(rdma:tracer_attached:max5m[1d]) == 1)`

// withoutEvents is the end of what the rules cannot see.
const withoutEvents = " Anything on hosts without applications.events."

// appRules are about the events of applications, which a tracer sees. Old hosts and those without it have none of these series.
func (o *Options) appRules() []rule {
	return []rule{
		{
			id: "app-errors", title: "RDMA application errors", panel: panelRef{appsUID, 9},
			severity: "warning", noData: quiet,
			summary: "{{ .Labels.app }} on {{ .Labels.host }} had error events of {{ .Labels.device }}",
			steps: []step{{
				query: `SELECT sum("count") AS "errors" FROM {rdma_app_event} WHERE {filter}` + notOwnText + errorEvents() + ` GROUP BY ` + byApp,
				from:  30 * time.Minute,
			}},
			promql: `max without (unit) ` + recentAppErrors(notOwnProm),
			fires: "Within half an hour the kernel queued an error event for a process of the application: cq_err, qp_fatal, qp_req_err, " +
				"qp_access_err, srq_err, wq_fatal or device_fatal. The queue pair or the queue is of no use any more.",
			quiet: "All other events, as comm_est, sq_drained and qp_last_wqe_reached, and those of ports. Events of the plugin's own workers (" +
				status.WorkerComm + "), for which device-fatal and probe-errors are.",
			clears: "Half an hour after the last one.",
			do: []string{
				"Which object and which process: the table of error events on the Applications dashboard (InfluxDB) has pid, number, and pod or job; " +
					"`rdma resource show qp` has the number as lqpn.",
				"Did the application notice? If not, app-errors-unread fires too, and it waits for a connection that is gone.",
				"qp_access_err and qp_req_err are wrong requests of the peer or of itself: a memory region that was freed, a wrong key. cq_err is a " +
					"queue that overflowed: it is too small. qp_fatal and device_fatal are the device: look at device-fatal and at the kernel log.",
				"One application on many hosts is its own fault; many applications on one device are the device.",
			},
			blind: "Completions with an error, which only the application sees. What happened while no tracer was attached." + withoutEvents,
		},
		{
			id: "app-errors-unread", title: "RDMA application does not read its errors", panel: panelRef{appsUID, 10},
			severity: "warning", hold: 2 * time.Minute, noData: quiet,
			summary: "{{ .Labels.app }} on {{ .Labels.host }}{{ with .Labels.unit }} ({{ . }}){{ end }} does not read error events of {{ .Labels.device }}",
			steps: []step{{
				query: `SELECT last("unread_errors") AS "unread" FROM {rdma_app_async} WHERE {filter}` + notOwnText + ` GROUP BY ` + byUnit,
				from:  o.window(),
			}},
			promql: `rdma_app_async_unread_errors{` + notOwnProm + `} > 0`,
			fires: "For two minutes error events have waited for a process of the application to read them. It does not know that a connection or a " +
				"queue of it has failed, and may wait for it for ever.",
			quiet:  "Errors that are read within two minutes. Events that are no errors, and those of ports, which many programs never read.",
			clears: "When the events are read, or gone with their object or process.",
			do: []string{
				"Is the process stuck? `cat /proc/PID/stack` and `gdb -p PID` on the host; pid and number are in the table of error events on the " +
					"Applications dashboard.",
				"If it works otherwise, the program has no thread that calls ibv_get_async_event: report that to its authors, and restart the job if it waits.",
			},
			blind: "Whether the application has noticed by other means, as by completions with an error." + withoutEvents,
		},
		{
			id: "app-destroy-hangs", title: "RDMA application hangs in a destroy", panel: panelRef{appsUID, 11},
			severity: "warning", noData: quiet,
			summary: "A thread of {{ .Labels.app }} on {{ .Labels.host }} hangs in the destruction of a {{ .Labels.object }} of {{ .Labels.device }}",
			steps: []step{{
				query: `SELECT last("threads") AS "threads" FROM {rdma_app_hang} WHERE {filter}` + notOwnText + ` GROUP BY ` + byApp + `, "object"`,
				from:  o.window(),
			}},
			promql: `rdma_app_hang_threads{` + notOwnProm + `} > 0`,
			fires: "A thread has waited for longer than applications.hang_after in ibv_destroy_cq, ibv_destroy_qp, ibv_destroy_srq or ibv_destroy_wq, " +
				"since events that the application read are not acknowledged. It waits for ever unless another thread acknowledges them.",
			quiet:  "Acknowledgements that come in time. Processes that exit, which wait for none.",
			clears: "When the thread goes on or its process ends.",
			do: []string{
				"The table of hangs on the Applications dashboard has pid, thread and the number of missing acknowledgements: that many calls of " +
					"ibv_ack_cq_events or ibv_ack_async_event are missing in the program. Report that to its authors.",
				"Nothing else ends it: kill the process (`kill -9 PID`), which destroys its objects.",
			},
			blind: "Programs with musl and 32-bit ones, rdma_destroy_id, and threads that hang in the kernel." + withoutEvents,
		},
		{
			id: "tracer-blind", title: "RDMA tracer not attached", panel: panelRef{appsUID, 21},
			severity: "warning", hold: 10 * time.Minute, noData: quiet,
			summary: "The tracer on {{ .Labels.host }} does not see the events of applications",
			steps: []step{
				{query: `SELECT last("attached") AS "attached" FROM {rdma_tracer} WHERE {filter} GROUP BY ` + byHost, from: o.window()},
				{query: `SELECT last("attached") AS "attached" FROM {rdma_tracer} WHERE {filter} AND "attached" = 1 GROUP BY ` + byHost, from: 24 * time.Hour},
			},
			when:   "$RA == 0 && $RB == 1",
			promql: blinded,
			fires: "For ten minutes rdma-events-tracer has not been attached, and it was within the last day. What applications experience " +
				"meanwhile is in no count.",
			quiet:  "Restarts, as after the driver was loaded again. Hosts whose tracer was never attached, which is a matter of their installation.",
			clears: "When it is attached again, or has not been for a day.",
			do: []string{
				"The reason is in the table of tracers on the Applications dashboard: no_permission is the file's capabilities, unsupported a kernel " +
					"without BTF or in lockdown, no_device that ib_uverbs is not loaded. The plugin's log has the whole sentence.",
				"Was the kernel or the package upgraded? `getcap` of the program has to show its capabilities.",
			},
			blind: "Hosts that are silent, which plugin-silent reports. A tracer that is attached and lacks functions (hooks_missing).",
		},
	}
}
