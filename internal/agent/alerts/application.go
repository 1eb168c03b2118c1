package alerts

import (
	"time"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/sys/status"
)

// unreadErrorsHold is the time for which errors must be unread before the alert fires. Package timeline records them earlier.
const unreadErrorsHold = 2 * time.Minute

func applicationAlerts() []Alert {
	return []Alert{
		{
			ID: "app-errors", Title: "RDMA application errors", Severity: Warning, Panel: Panel{ApplicationsDashboard, 9},
			Measurement: "rdma_app_async", Except: ownWorkersTag(),
			When: Grew{Fields: errorCounters(), By: 1, Within: 30 * time.Minute, FromZero: true}, Of: "{app} {unit}",
			Text:    "{app} {unit} had error events, {total} in all",
			Summary: "{{ .Labels.app }} on {{ .Labels.host }} had error events of {{ .Labels.device }}",
			Fires: "Within half an hour the kernel queued an error event for a process of the application: " + trace.ErrorNames("or") +
				". The queue pair or the queue cannot be used any more.",
			Quiet: "All other events, such as comm_est, sq_drained and qp_last_wqe_reached, and events of ports. Events of the plugin's own workers " +
				"(rdma-ev-worker), which device-fatal and probe-errors cover.",
			Clears: "Half an hour after the last one.",
			FirstSteps: []string{
				"Which object and which process: the table of error events on the Applications dashboard (InfluxDB) has pid, number, and pod or " +
					"job; `rdma resource show qp` has the number as lqpn.",
				"Did the application notice the error? If not, app-errors-unread fires too, and the application waits for a connection that is gone.",
				"qp_access_err and qp_req_err mean wrong requests of the peer or of the application: a freed memory region, a wrong key. cq_err " +
					"means that a completion queue is too small and overflowed. qp_fatal and device_fatal come from the device: look at " +
					"device-fatal and at the kernel log.",
				"Errors of one application on many hosts point to the application, errors of many applications on one device to the device.",
			},
			Blind: "Completions with an error, which only the application sees. Events while no tracer was attached. Hosts without " +
				"applications.events.",
		},
		{
			ID: "app-errors-unread", Title: "RDMA application does not read its errors", Severity: Warning, Panel: Panel{ApplicationsDashboard, 10},
			Measurement: "rdma_app_async", Except: ownWorkersTag(), When: greaterThan("unread_errors", 0), Of: "{app} {unit}",
			Hold: unreadErrorsHold,
			Text: "{app} {unit} does not read its error events, {unread_errors} wait",
			Summary: "{{ .Labels.app }} on {{ .Labels.host }}{{ with .Labels.unit }} ({{ . }}){{ end }} does not read error events of {{ " +
				".Labels.device }}",
			Fires: "For two minutes the application has not read its error events. It does not know that a connection or a queue has failed, and may " +
				"wait for it for ever.",
			Quiet:  "Errors that are read within two minutes. Events that are not errors, and events of ports, which many programs never read.",
			Clears: "When the events are read, or gone with their object or process.",
			FirstSteps: []string{
				"Is the process stuck? Use `cat /proc/PID/stack` and `gdb -p PID` on the host, which stops the process while it is attached, so that its " +
					"job may fail. The table of error events on the Applications dashboard has pid and number.",
				"If the process works otherwise, the program has no thread that calls ibv_get_async_event. Report that to its authors, and restart " +
					"the job if it waits.",
			},
			Blind: "Whether the application has noticed by other means, such as completions with an error. Hosts without applications.events.",
		},
		{
			ID: "app-destroy-hangs", Title: "RDMA application hangs in a destroy", Severity: Warning, Panel: Panel{ApplicationsDashboard, 11},
			Measurement: "rdma_app_hang", Except: ownWorkersTag(), When: greaterThan("threads", 0), Age: "age_ns", Successive: true, Of: "{app} {object}",
			Text:    "{app}, pid {pid}, hangs in the destruction of {object} {number}: acknowledgements are missing, {missing} of them",
			Summary: "A thread of {{ .Labels.app }} on {{ .Labels.host }} hangs in the destruction of a {{ .Labels.object }} of {{ .Labels.device }}",
			Fires: "A thread has waited for longer than applications.hang_after in ibv_destroy_cq, ibv_destroy_qp, ibv_destroy_srq or " +
				"ibv_destroy_wq, because events that the application read are not acknowledged. It waits for ever unless another thread acknowledges " +
				"them.",
			Quiet:  "Acknowledgements that come in time. Processes that exit, which wait for none.",
			Clears: "When the thread goes on or its process ends.",
			FirstSteps: []string{
				"The table of hangs on the Applications dashboard has pid, thread and the number of missing acknowledgements: that many calls of " +
					"ibv_ack_cq_events or ibv_ack_async_event are missing in the program. Report that to its authors.",
				"Only `kill -9 PID` ends the hang: it destroys the objects, and ends the process and, as a rule, its job.",
			},
			Blind: "Programs that use musl, 32-bit programs, rdma_destroy_id, and threads that hang in the kernel. Hosts without applications.events.",
		},
		{
			ID: "tracer-blind", Title: "RDMA tracer not attached", Severity: Warning, Panel: Panel{ApplicationsDashboard, 21},
			Measurement: "rdma_tracer", When: Unless{equals("attached", 0), oneOf("reason", "unsupported", "no_device")},
			Hold:    10 * time.Minute,
			Text:    "the events of applications are not seen: {reason}",
			Summary: "The tracer on {{ .Labels.host }} does not see the events of applications",
			Fires: "For ten minutes rdma-events-tracer has not been attached although applications.events is set. Events of applications during this " +
				"time are not counted.",
			Quiet: "Restarts, for example after the driver was loaded again. Kernels that cannot be traced (unsupported), and hosts without an RDMA device " +
				"(no_device).",
			Clears: "When it is attached again.",
			FirstSteps: []string{
				"The table of tracers on the Applications dashboard has the reason: no_permission means that the file lacks capabilities, unsupported " +
					"that the kernel has no BTF or is in lockdown, no_device that ib_uverbs is not loaded. The plugin's log has the full text.",
				"Was the kernel or the package upgraded? `getcap` of the program has to show its capabilities.",
			},
			Blind: "Hosts that are silent, which plugin-silent reports. A tracer that is attached and lacks functions (hooks_missing).",
		},
	}
}

// ownWorkersTag excludes the plugin's own workers. They read each event to report it, and other alerts cover them.
func ownWorkersTag() Tag { return Tag{"app", status.WorkerComm} }

// errorCounters returns the counters of rdma_app_async for events that are errors.
func errorCounters() []string {
	var names []string
	for _, t := range trace.ErrorTypes() {
		names = append(names, t.String())
	}
	return names
}
