package alerts

import (
	"time"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/sys/status"
)

// unreadAlerted is how long errors wait before somebody has to look at the application. Its record is made earlier, by package timeline.
const unreadAlerted = 2 * time.Minute

func applicationAlerts() []Alert {
	return []Alert{
		{
			ID: "app-errors", Title: "RDMA application errors", Severity: Warning, Panel: Panel{Applications, 9},
			Measurement: "rdma_app_async", Except: ownWorkers(),
			When: Grew{Fields: errorCounters(), By: 1, Within: 30 * time.Minute, FromZero: true}, Of: "{app} {unit}",
			Text:    "{app} {unit} had error events, {total} in all",
			Summary: "{{ .Labels.app }} on {{ .Labels.host }} had error events of {{ .Labels.device }}",
			Fires: "Within half an hour the kernel queued an error event for a process of the application: " + trace.ErrorNames("or") +
				". The queue pair or the queue is of no use any more.",
			Quiet: "All other events, as comm_est, sq_drained and qp_last_wqe_reached, and those of ports. Events of the plugin's own workers " +
				"(rdma-ev-worker), for which device-fatal and probe-errors are.",
			Clears: "Half an hour after the last one.",
			FirstSteps: []string{
				"Which object and which process: the table of error events on the Applications dashboard (InfluxDB) has pid, number, and pod or " +
					"job; `rdma resource show qp` has the number as lqpn.",
				"Did the application notice? If not, app-errors-unread fires too, and it waits for a connection that is gone.",
				"qp_access_err and qp_req_err are wrong requests of the peer or of itself: a memory region that was freed, a wrong key. cq_err is " +
					"a queue that overflowed: it is too small. qp_fatal and device_fatal are the device: look at device-fatal and at the kernel " +
					"log.",
				"One application on many hosts is its own fault; many applications on one device are the device.",
			},
			Blind: "Completions with an error, which only the application sees. What happened while no tracer was attached. Anything on hosts " +
				"without applications.events.",
		},
		{
			ID: "app-errors-unread", Title: "RDMA application does not read its errors", Severity: Warning, Panel: Panel{Applications, 10},
			Measurement: "rdma_app_async", Except: ownWorkers(), When: above("unread_errors", 0), Of: "{app} {unit}",
			Hold: unreadAlerted,
			Text: "{app} {unit} does not read its error events, {unread_errors} wait",
			Summary: "{{ .Labels.app }} on {{ .Labels.host }}{{ with .Labels.unit }} ({{ . }}){{ end }} does not read error events of {{ " +
				".Labels.device }}",
			Fires: "For two minutes error events have waited for a process of the application to read them. It does not know that a connection or a " +
				"queue of it has failed, and may wait for it for ever.",
			Quiet:  "Errors that are read within two minutes. Events that are no errors, and those of ports, which many programs never read.",
			Clears: "When the events are read, or gone with their object or process.",
			FirstSteps: []string{
				"Is the process stuck? `cat /proc/PID/stack` and `gdb -p PID` on the host, which stops the process while it is attached, for which its " +
					"job may fail; pid and number are in the table of error events on the Applications dashboard.",
				"If it works otherwise, the program has no thread that calls ibv_get_async_event: report that to its authors, and restart the job " +
					"if it waits.",
			},
			Blind: "Whether the application has noticed by other means, as by completions with an error. Anything on hosts without " +
				"applications.events.",
		},
		{
			ID: "app-destroy-hangs", Title: "RDMA application hangs in a destroy", Severity: Warning, Panel: Panel{Applications, 11},
			Measurement: "rdma_app_hang", Except: ownWorkers(), When: above("threads", 0), Age: "age_ns", Of: "{app} {object} {number}",
			Text:    "{app}, pid {pid}, hangs in the destruction of {object} {number}: acknowledgements are missing, {missing} of them",
			Summary: "A thread of {{ .Labels.app }} on {{ .Labels.host }} hangs in the destruction of a {{ .Labels.object }} of {{ .Labels.device }}",
			Fires: "A thread has waited for longer than applications.hang_after in ibv_destroy_cq, ibv_destroy_qp, ibv_destroy_srq or " +
				"ibv_destroy_wq, since events that the application read are not acknowledged. It waits for ever unless another thread acknowledges " +
				"them.",
			Quiet:  "Acknowledgements that come in time. Processes that exit, which wait for none.",
			Clears: "When the thread goes on or its process ends.",
			FirstSteps: []string{
				"The table of hangs on the Applications dashboard has pid, thread and the number of missing acknowledgements: that many calls of " +
					"ibv_ack_cq_events or ibv_ack_async_event are missing in the program. Report that to its authors.",
				"Nothing else ends it: `kill -9 PID` destroys its objects; it ends the process and, as a rule, its job.",
			},
			Blind: "Programs with musl and 32-bit ones, rdma_destroy_id, and threads that hang in the kernel. Anything on hosts without " +
				"applications.events.",
		},
		{
			ID: "tracer-blind", Title: "RDMA tracer not attached", Severity: Warning, Panel: Panel{Applications, 21},
			Measurement: "rdma_tracer", When: Unless{is("attached", 0), oneOf("reason", "unsupported", "no_device")},
			Hold:    10 * time.Minute,
			Text:    "the events of applications are not seen: {reason}",
			Summary: "The tracer on {{ .Labels.host }} does not see the events of applications",
			Fires: "For ten minutes rdma-events-tracer has not been attached although applications.events is set. What applications experience " +
				"meanwhile is in no count.",
			Quiet: "Restarts, as after the driver was loaded again. Kernels that cannot be traced (unsupported), and hosts without an RDMA device " +
				"(no_device).",
			Clears: "When it is attached again.",
			FirstSteps: []string{
				"The reason is in the table of tracers on the Applications dashboard: no_permission is the file's capabilities, unsupported a " +
					"kernel without BTF or in lockdown, no_device that ib_uverbs is not loaded. The plugin's log has the whole sentence.",
				"Was the kernel or the package upgraded? `getcap` of the program has to show its capabilities.",
			},
			Blind: "Hosts that are silent, which plugin-silent reports. A tracer that is attached and lacks functions (hooks_missing).",
		},
	}
}

// ownWorkers are the plugin's own workers, which read each event to report it, and for which there are other alerts.
func ownWorkers() Tag { return Tag{"app", status.WorkerComm} }

// errorCounters returns the counters of rdma_app_async for events that are errors.
func errorCounters() []string {
	var names []string
	for _, t := range trace.ErrorTypes() {
		names = append(names, t.String())
	}
	return names
}
