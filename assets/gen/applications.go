package gen

import (
	"slices"

	"rdma_events/assets/grafana"
	"rdma_events/internal/agent/alerts"
)

// appsUID is the identifier of the dashboard of applications.
const appsUID = alerts.ApplicationsDashboard

// These are the options of the plugin's section applications.
const (
	needsEvents  = "events"
	needsObjects = "objects"
)

// filteredByApp is the condition for the dashboard's variables device and app. Measurements of a whole host, such as rdma_tracer, lack
// these tags.
const filteredByApp = ` AND "device" =~ /^$device$/ AND "app" =~ /^$app$/`

// byHang has the tags that distinguish hangs.
const byHang = byApp + `, "object"`

func appsDashboard(n *names, e Engine, o *Options) *grafana.Dashboard {
	b := newBoard(n, e, o, append(slices.Clone(o.Labels), "host"))
	b.row(1, "Now")
	b.appTiles()
	b.row(7, "Which")
	b.appsInTrouble()
	b.appHangs()
	b.appErrorEvents()
	b.row(14, "When")
	b.appHistory()
	b.row(17, "Who holds what")
	b.appHolders()
	b.row(22, "Tracer")
	b.tracers()
	return b.dashboard(appsUID, "RDMA applications",
		"RDMA errors of applications, whether they read them, hangs, and which application holds which objects.", "30s",
		[]grafana.Link{b.link("Overview", overviewUID, "All hosts"), b.link("Device", deviceUID, "One device of one host")},
		b.appVariables(), b.errorMarks())
}

// errorMarks marks the error events of applications.
func (b *board) errorMarks() grafana.Annotation {
	a := b.annotation("Application errors", "dark-orange", "event", "app,host,device,number",
		query{
			text: `SELECT "count", "app", "device", "event", "host", "number" FROM {rdma_app_event} WHERE {filter}` + filteredByApp + errorEvents() +
				` ORDER BY time DESC LIMIT 1000`,
			prom: `sum by (host, device, app) (increase(` + appErrors("FILTER,APPS,") + `[$__interval])) > 0.5`,
			logs: appErrorLogs(),
		})
	if !b.hasMoments() {
		a.TagKeys = "host,device,app"
	}
	return a
}

// orNone adds to a query for the sum of n a 0 for each host that looks, so that nothing found is not the same as
// not looked for. field is one that rdma_host has on such a host alone.
func orNone(found, field string) string {
	return `SELECT sum("n") AS "sum" FROM (` + found + `), (SELECT last("` + field + `") * 0 AS "n" FROM {rdma_host} WHERE {filter} GROUP BY ` +
		byHost + `) WHERE $timeFilter`
}

// oneSum adds the answers of orNone, which InfluxDB gives for each measurement.
func (b *board) oneSum() {
	if b.engine == InfluxDB {
		b.last().Transformations = []grafana.Transform{
			{ID: "merge", Options: map[string]any{}},
			{ID: "calculateField", Options: map[string]any{
				"mode": "reduceRow", "reduce": map[string]any{"reducer": "sum"}, "replaceFields": true, "alias": "sum",
			}},
		}
	}
}

// appTiles count what is wrong now.
func (b *board) appTiles() {
	const height = 4
	const off = "events is off" // and objects is off: it is not looked for
	b.stat(panel{
		id: 2, title: "Unread errors", width: 5, height: height, now: true, needs: needsEvents,
		help: help{
			"Error events that their application has not read yet.",
			"that a queue pair or a queue has failed, and its application does not know it.",
			"the table below names the application; see the steps of the alert app-errors-unread.",
			"applications that notice by other means.",
		},
		queries: []query{{
			text: orNone(`SELECT last("unread_errors") AS "n" FROM {rdma_app_async} WHERE {filter}`+filteredByApp+` GROUP BY `+byUnit, "app_unread_errors"),
			prom: `sum(rdma_app_async_unread_errors{FILTER,APPS}) or sum(rdma_host_app_unread_errors{FILTER}) * 0`,
		}},
	}, off, brokenNow())
	b.oneSum()
	b.stat(panel{
		id: 3, title: "Threads that hang", width: 5, height: height, now: true, needs: needsEvents,
		help: help{
			"Threads that wait in the destruction of an object for missing acknowledgements.",
			"that a program will not end by itself.",
			"the table of hangs has the thread and the number of missing acknowledgements.",
			"threads that hang elsewhere.",
		},
		queries: []query{{
			text: orNone(`SELECT last("threads") AS "n" FROM {rdma_app_hang} WHERE {filter}`+filteredByApp+` GROUP BY `+byHang, "app_hangs"),
			prom: `sum(rdma_app_hang_threads{FILTER,APPS}) or sum(rdma_host_app_hangs{FILTER}) * 0`,
		}},
	}, off, brokenNow())
	b.oneSum()
	b.stat(panel{
		id: 4, title: "Errors in 30 minutes", width: 5, height: height, needs: needsEvents,
		help: help{
			"Error events that the kernel queued for applications within the last half hour.",
			nothing + "; orange means that queue pairs or queues have failed.",
			"the table of error events has each.",
			"completions with an error, which only the application sees.",
		},
		queries: []query{{
			text: orNone(`SELECT sum("count") AS "n" FROM {rdma_app_event} WHERE {filter}`+filteredByApp+errorEvents()+` GROUP BY `+byApp, "app_errors"),
			prom: `round(sum(` + recentAppErrors("FILTER,APPS,") + `)) or sum(rdma_host_app_errors_total{FILTER}) * 0`,
		}},
	}, off, degradedNow())
	b.over("30m")
	b.oneSum()
	b.stat(panel{
		id: 5, title: "Queue pairs in error", width: 5, height: height, now: true, needs: needsObjects,
		help: help{
			"Queue pairs in state error, as the kernel listed them within the last minute.",
			nothing + "; orange means that connections have failed and have not been cleaned up.",
			"the table below names their owner. A few queue pairs that disappear belong to jobs that end.",
			"queue pairs created by DEVX, and queue pairs of devices with more than 4,096.",
		},
		queries: []query{{
			text: `SELECT sum("n") AS "sum" FROM (SELECT last("qps_error") AS "n" FROM {rdma_app} WHERE {filter}` + filteredByApp + ` GROUP BY ` + byUnit +
				`) WHERE $timeFilter`,
			prom: `sum(rdma_app_qps_error{FILTER,APPS})`,
		}},
	}, "objects is off", degradedNow())
	b.stat(panel{
		id: 6, title: "Tracers not attached", width: 4, height: height, now: true, needs: needsEvents,
		help: help{
			"Hosts whose tracer is not attached.",
			nothing + "; purple means that events of applications on these hosts are not counted.",
			"the table of tracers has the reason.",
			"silent hosts, and those without the option.",
		},
		queries: []query{{
			text: `SELECT count("n") - sum("n") AS "blind" FROM (SELECT last("attached") AS "n" FROM {rdma_tracer} WHERE {filter} GROUP BY ` + byHost +
				`) WHERE $timeFilter`,
			prom: `sum(rdma_tracer_attached{FILTER} == bool 0)`,
		}},
	}, off, newThresholds("green", level{1, "purple"}))
}

// byApplication groups a query by application, for one value of each.
const byApplication = ` by (PLACE, host, plugin_instance, device, app) `

// appsInTrouble adds the table that answers which application has trouble. Each kind of trouble is a query of its own, since
// InfluxDB does not join measurements, and all units and objects of an application are one row.
func (b *board) appsInTrouble() {
	worst := func(n, nAs, age, ageAs, measurement, by string) query {
		inner, outer := `SELECT last("`+n+`") AS "n"`, `SELECT sum("n") AS "`+nAs+`"`
		if age != "" {
			inner, outer = inner+`, last("`+age+`") AS "age"`, outer+`, max("age") AS "`+ageAs+`"`
		}
		return query{text: outer + ` FROM (` + inner + ` FROM {` + measurement + `} WHERE {filter}` + filteredByApp + ` AND RECENT GROUP BY ` + by +
			`) WHERE "n" > 0 AND $timeFilter GROUP BY ` + byApp}
	}
	b.table(panel{
		id: 8, title: "Applications in trouble", width: 24, height: 8, needs: needsEvents,
		help: help{
			"Up to 100 applications that have unread errors, hang, had an error event within half an hour, or hold a queue pair in state error " +
				"(with `applications.objects`). Unread for is the time since the queue of events was last empty or read.",
			nothing + "; every row is an application whose connection or queue has failed.",
			"an application that reads its errors and continues needs no action. An application that does not read them, or hangs, waits for ever: " +
				"`rdma-events explain app-errors-unread`.",
			"errors that came as completions.",
		},
		queries: []query{
			worst("unread_errors", "unread", "unread_age_ns", "waits", "rdma_app_async", byUnit),
			worst("threads", "threads", "age_ns", "hangs", "rdma_app_hang", byHang),
			worst("qps_error", "qps", "", "", "rdma_app", byUnit),
			{text: `SELECT sum("count") AS "errors" FROM {rdma_app_event} WHERE {filter}` + filteredByApp + errorEvents() + ` GROUP BY ` + byApp},
			{prom: `sum` + byApplication + `(rdma_app_async_unread_errors{FILTER,APPS}) > 0`},
			{prom: `max` + byApplication + `(rdma_app_async_unread_age_seconds{FILTER,APPS} and rdma_app_async_unread_errors{FILTER,APPS} > 0)`},
			{prom: `sum` + byApplication + `(rdma_app_hang_threads{FILTER,APPS}) > 0`},
			{prom: `max` + byApplication + `(rdma_app_hang_age_seconds{FILTER,APPS} and rdma_app_hang_threads{FILTER,APPS} > 0)`},
			{prom: `sum` + byApplication + `(rdma_app_qps_error{FILTER,APPS}) > 0`},
			{prom: `round(sum` + byApplication + `(` + recentAppErrors("FILTER,APPS,") + `)) > 0`},
		},
	}, b.toRow(), b.placed(column{name: "app"},
		column{name: "unread", prom: "Value #A", title: "unread errors", bad: true},
		column{name: "waits", prom: "Value #B", title: "unread for", unit: b.names.unit("rdma_app_async.unread_age_ns")},
		column{name: "threads", prom: "Value #C", title: "threads hang", bad: true},
		column{name: "hangs", prom: "Value #D", title: "hang for", unit: b.names.unit("rdma_app_hang.age_ns")},
		column{name: "qps", prom: "Value #E", title: "QPs in error", bad: true},
		column{name: "errors", prom: "Value #F", title: "errors in 30 min", bad: true})...)
	b.over("30m")
	b.zeroIs("unread for", "-")
	b.zeroIs("hang for", "-")
	b.first(100)
}

// appHangs adds a table of the threads that hang.
func (b *board) appHangs() {
	const by = ` by (PLACE, host, plugin_instance, device, app, object) `
	const lasts = `rdma_app_hang_threads{FILTER,APPS} > 0`
	width := 12
	if !b.hasMoments() { // there is no table of events beside it
		width = 24
	}
	b.table(panel{
		id: 12, title: "Hangs", width: width, height: 8, now: true, needs: needsEvents,
		help: help{
			"Up to 100 applications with threads that hang in the destruction of an object. All columns except the number of threads describe the " +
				"thread that has waited longest. Proof is asleep if it has not run since it began to wait.",
			nothing + "; every row is a program that will not continue by itself.",
			"the program lacks this number of calls of ibv_ack_cq_events or ibv_ack_async_event. `kill -9` of the pid ends it.",
			"programs that use musl, 32-bit programs, and rdma_destroy_id.",
		},
		queries: []query{
			{text: `SELECT ` + lastOf("threads", "age", "missing", "pid", "tid", "number", "unit", "proof") + ` FROM (SELECT last("threads") AS "threads",
				last("age_ns") AS "age", last("missing") AS "missing", last("pid") AS "pid", last("tid") AS "tid", last("number") AS "number",
				last("unit") AS "unit", last("proof") AS "proof" FROM {rdma_app_hang} WHERE {filter}` + filteredByApp + ` GROUP BY ` + byHang + `)
				WHERE "threads" > 0 AND $timeFilter GROUP BY ` + byHang},
			{prom: `max` + by + `(` + lasts + `)`},
			{prom: `max` + by + `(rdma_app_hang_age_seconds{FILTER,APPS} and ` + lasts + `)`},
			{prom: `max` + by + `(rdma_app_hang_missing{FILTER,APPS} and ` + lasts + `)`},
			{prom: `max by (PLACE, host, plugin_instance, device, app, object, pid, tid, number, unit, proof) (rdma_app_hang_info{FILTER,APPS} == 1
				and on (host, plugin_instance, device, app, object) ` + lasts + `)`},
		},
	}, b.toRow(), b.placed(column{name: "app"}, column{name: "object"},
		column{name: "age", prom: "Value #B", title: "age", unit: b.names.unit("rdma_app_hang.age_ns")},
		column{name: "threads", prom: "Value #A", title: "threads", bad: true}, column{name: "missing", prom: "Value #C", title: "missing acks"},
		column{name: "pid"}, column{name: "tid"}, column{name: "number"}, column{name: "unit"}, column{name: "proof"},
		column{name: none, prom: "Value #D", hidden: true})...)
	b.first(100)
}

// appErrorEvents adds a table of the last error events. A scrape has no moments.
func (b *board) appErrorEvents() {
	if !b.hasMoments() {
		return
	}
	b.table(panel{
		id: 13, title: "Error events", width: 12, height: 8, needs: needsEvents,
		help: help{
			"The last 200 error events of applications, or runs of equal events. Number is the number of the object in `rdma resource show`; pid and " +
				"unit are of the last one of a run.",
			"nothing.",
			"`rdma-events explain app-errors` explains each type.",
			"events that are not errors: the panel of types below counts them.",
		},
		queries: []query{{text: `SELECT "host", "device", "app", "event", "number", "pid", "unit", "count" FROM {rdma_app_event}
			WHERE {filter}` + filteredByApp + errorEvents() + ` ORDER BY time DESC LIMIT 200`, logs: appErrorLogs()}},
	}, b.toRow(), column{name: "Time"}, column{name: "host"}, column{name: "device"}, column{name: "app"}, column{name: "event"},
		column{name: "number"}, column{name: "pid"}, column{name: "unit"}, column{name: "count"})
}

func (b *board) appHistory() {
	const firstEvent = " In Prometheus, the first event of an application, because its counters start with it."
	b.series(panel{
		id: 9, title: "Errors by application", width: 12, height: 9, needs: needsEvents,
		help: help{
			"Error events of each application in each interval, on all selected hosts.",
			nothing + "; normally there are none. Errors of all applications at the same time point to a device.",
			"the table of error events names the process and the object.", "completions with an error." + firstEvent,
		},
		queries: []query{{
			alias: "$tag_app",
			text: `SELECT sum("count") AS "errors" FROM {rdma_app_event} WHERE {filter}` + filteredByApp + errorEvents() +
				` GROUP BY time($__interval), "app" fill(0)`,
			prom: `sum by (app) (increase(` + appErrors("FILTER,APPS,") + `[$__interval])) > 0`,
		}},
	}, bars)
	b.series(panel{
		id: 15, title: "Events by type", width: 12, height: 9, needs: needsEvents,
		help: help{
			"Events that the kernel queued for applications, of each type, in each interval. `comm_est`, `sq_drained` and `qp_last_wqe_reached` " +
				"belong to ordinary work.",
			"nothing; `cq_err`, `qp_fatal`, `srq_err`, `wq_fatal` and `device_fatal` are never normal.",
			"compare with the panel on the left.", "events of ports, which every program gets." + firstEvent,
		},
		queries: []query{{
			alias: "$tag_event",
			text: `SELECT sum("count") AS "events" FROM {rdma_app_event} WHERE {filter}` + filteredByApp +
				` GROUP BY time($__interval), "event" fill(0)`,
			prom: `sum by (event) (increase(rdma_app_async_events_total{FILTER,APPS}[$__interval])) > 0`,
		}},
	}, bars)
	b.series(panel{
		id: 10, title: "Unread errors", width: 8, height: 9, needs: needsEvents,
		help: help{
			"Unread error events of each application, on the device with the most.",
			nothing + "; if a line stays above 0, the program does not read its events.",
			"`rdma-events explain app-errors-unread`.", "how long they have waited: see the panel on the right.",
		},
		queries: []query{b.byApplication("max", "rdma_app_async", "unread_errors", "rdma_app_async_unread_errors")},
	}, lines)
	b.series(panel{
		id: 16, title: "Oldest unread event", width: 8, height: 9, unit: b.names.unit("rdma_app_async.unread_age_ns"), needs: needsEvents,
		help: help{
			"Time since the queue of events of each application was last empty or read, on the device with the longest time. All types of events " +
				"but those of ports.",
			nothing + "; milliseconds are normal; if a line rises without end, the program reads no events.",
			"compare with the panel on the left: some programs never read events that are not errors.", "what the application did with the events that it read.",
		},
		queries: []query{{
			alias: "$tag_app",
			text: `SELECT max("unread_age_ns") AS "age" FROM {rdma_app_async} WHERE {filter}` + filteredByApp + ` AND "unread_age_ns" > 0
				GROUP BY time($__interval), "app" fill(none)`,
			prom: "max by (app) (" + inInterval("max", "rdma_app_async_unread_age_seconds{FILTER,APPS}") + ") > 0",
		}},
	}, lines)
	b.series(panel{
		id: 11, title: "Threads that hang", width: 8, height: 9, needs: needsEvents,
		help: help{
			"Threads of each application that hang in the destruction of objects, on the device with the most.",
			nothing + "; at rest there are none.", "the table of hangs has the thread.", "hangs shorter than `hang_after`.",
		},
		queries: []query{b.byApplication("max", "rdma_app_hang", "threads", "rdma_app_hang_threads")},
	}, lines)
}

// byApplication returns the query for the greatest value of each application in each interval.
func (b *board) byApplication(aggregation, measurement, field, inPrometheus string) query {
	return query{
		alias: "$tag_app",
		text: `SELECT ` + aggregation + `("` + field + `") AS "n" FROM {` + measurement + `} WHERE {filter}` + filteredByApp +
			` GROUP BY time($__interval), "app" fill(none)`,
		prom: aggregation + " by (app) (" + inInterval(aggregation, inPrometheus+"{FILTER,APPS}") + ")",
	}
}

// applicationSum returns a query for the sum of a field of rdma_app for each application at each moment.
func applicationSum(field string) query {
	return query{
		alias: "$tag_app",
		text: `SELECT sum("n") AS "n" FROM (SELECT last("` + field + `") AS "n" FROM {rdma_app} WHERE {filter}` + filteredByApp +
			` GROUP BY time($__interval), ` + byUnit + ` fill(none)) WHERE $timeFilter GROUP BY time($__interval), "app" fill(none)`,
		prom: `sum by (app) (rdma_app_` + field + `{FILTER,APPS})`,
	}
}

// appHolders adds who holds which objects.
func (b *board) appHolders() {
	value := func(field string) query {
		return query{prom: `sum by (PLACE, host, plugin_instance, device, app, unit) (rdma_app_` + field + `{FILTER,APPS})`}
	}
	b.table(panel{
		id: 20, title: "Holders", width: 24, height: 9, now: true, needs: needsObjects,
		help: help{
			"The objects of each device that applications hold, most queue pairs first. Queue pairs are from the last minute, all others " +
				"of the last ten seconds.",
			nothing + "; orange are queue pairs in state error.",
			"before you drain a device, see which applications still use it.",
			"objects created by DEVX. `unknown` has objects that no visible process owns, `kernel` objects of kernel modules.",
		},
		queries: []query{
			{text: `SELECT last("processes") AS "processes", last("contexts") AS "contexts", last("pds") AS "PDs", last("cqs") AS "CQs",
				last("srqs") AS "SRQs", last("qps") AS "qps", last("qps_rts") AS "rts", last("qps_error") AS "bad" FROM {rdma_app}
				WHERE {filter}` + filteredByApp + ` GROUP BY ` + byUnit},
			value("processes"), value("contexts"), value("pds"), value("cqs"), value("srqs"), value("qps"), value("qps_rts"), value("qps_error"),
		},
	}, b.toRow(), b.placed(column{name: "app"}, column{name: "unit"}, column{name: "processes", prom: "Value #A", title: "processes"},
		column{name: "contexts", prom: "Value #B", title: "contexts"}, column{name: "PDs", prom: "Value #C", title: "PDs"},
		column{name: "CQs", prom: "Value #D", title: "CQs"}, column{name: "SRQs", prom: "Value #E", title: "SRQs"},
		column{name: "qps", prom: "Value #F", title: "queue pairs"}, column{name: "rts", prom: "Value #G", title: "in RTS"},
		column{name: "bad", prom: "Value #H", title: "in error", bad: true})...)
	b.sorted("queue pairs", "qps", true)
	b.series(panel{
		id: 18, title: "Queue pairs", width: 12, height: 9, needs: needsObjects,
		help: help{
			"Queue pairs of each application, on all selected hosts and devices.",
			nothing + "; if a line rises for days, the program leaks queue pairs.",
			"compare with the number of its processes.", "applications on devices with more than 4,096 queue pairs: there they are `unknown`.",
		},
		queries: []query{applicationSum("qps")},
	}, lines)
	b.series(panel{
		id: 19, title: "Queue pairs in error", width: 12, height: 9, needs: needsObjects,
		help: help{
			"Queue pairs in state error of each application, on all selected hosts and devices.",
			nothing + "; if a line stays above 0, the program does not clean up after failed connections.",
			"compare with its errors above: without an error, the peer or the program itself ended the connection.", "queue pairs that disappear within a minute.",
		},
		queries: []query{applicationSum("qps_error")},
	}, lines)
}

// sorted has the last table begin with the greatest or the least value of a column, and end after 100 rows where InfluxDB
// gives more.
func (b *board) sorted(title, name string, desc bool) {
	b.last().Options["sortBy"] = []map[string]any{{"displayName": title, "desc": desc}}
	if b.engine == InfluxDB {
		b.first(100, sortedBy(name, desc))
	}
}

// tracers adds how the programs are that see the events.
func (b *board) tracers() {
	const by = ` by (PLACE, host, plugin_instance) `
	value := func(field string) query { return query{prom: `max` + by + `(rdma_tracer_` + field + `{FILTER})`} }
	b.table(panel{
		id: 21, title: "Tracers", width: 24, height: 9, now: true, needs: needsEvents,
		help: help{
			"The tracer of each host, unattached ones first. Blind is the time in which the tracer was not attached after it had been; lost records " +
				"are events that were counted without their details; map full counts processes and queues that are part of `other`.",
			nothing + "; orange (no) means that events of applications on this host are not counted.",
			"`rdma-events explain tracer-blind` explains each reason.",
			"hosts without the option.",
		},
		queries: []query{
			{text: `SELECT last("attached") AS "attached", last("worker_state") AS "worker", last("reason") AS "reason", last("hooks") AS "hooks",
				last("hooks_missing") AS "missing", last("gaps") AS "gaps", last("blind_ns") AS "blind", last("lost_records") AS "lost",
				last("map_full") AS "full", last("processes") AS "processes" FROM {rdma_tracer} WHERE {filter} GROUP BY ` + byHost},
			value("attached"), value("hooks_missing"), value("gaps_total"), value("blind_seconds_total"), value("lost_records_total"),
			value("map_full_total"), value("processes"),
			{prom: `max by (PLACE, host, plugin_instance, worker_state, reason) (rdma_tracer_status{FILTER} == 1)`},
			{prom: `max by (PLACE, host, plugin_instance, hooks) (rdma_tracer_info{FILTER} == 1)`},
		},
	}, b.toRow(), append([]column{
		{name: "host"}, {name: "attached", prom: "Value #A", title: "attached"}, {name: "worker", prom: "worker_state", title: "worker"}, {name: "reason"},
		{name: "hooks"}, {name: "missing", prom: "Value #B", title: "missing hooks"}, {name: "gaps", prom: "Value #C", title: "gaps"},
		{name: "blind", prom: "Value #D", title: "blind", unit: b.names.unit("rdma_tracer.blind_ns")},
		{name: "lost", prom: "Value #E", title: "lost records"}, {name: "full", prom: "Value #F", title: "map full"},
		{name: "processes", prom: "Value #G", title: "processes"},
		{name: none, prom: "Value #H", hidden: true}, {name: none, prom: "Value #I", hidden: true},
	}, b.location()...)...)
	b.mapped("attached", yesNo())
	b.sorted("attached", "attached", false)
	b.series(panel{
		id: 23, title: "Gaps and losses", width: 12, height: 8, needs: needsEvents,
		help: help{
			"How often a tracer ended after it had been attached, events whose details were lost, and processes and queues for which the tracer had no " +
				"place, on all hosts that are chosen.",
			"details of lost events; the counts include them.",
			"a gap now and then means that a driver was loaded again; if there are many, check the plugin's log for crashes of the tracer.",
			"what happened in a gap.",
		},
		queries: []query{
			counterQuery("gaps", "gaps", "rdma_tracer", ""), counterQuery("lost records", "lost_records", "rdma_tracer", ""),
			counterQuery("map full", "map_full", "rdma_tracer", ""),
		},
	}, bars)
	b.series(panel{
		id: 24, title: "Memory", width: 12, height: 8, unit: b.names.unit("rdma_tracer.rss_bytes"), needs: needsEvents,
		help: help{
			"Resident memory of the tracer, on the host with the greatest.",
			nothing + "; a line that rises for days is a leak.", "report it.", "the kernel's maps, 7 MiB.",
		},
		queries: []query{{
			alias: "tracer", text: `SELECT max("rss_bytes") AS "rss" FROM {rdma_tracer} WHERE {filter} GROUP BY time($__interval) fill(none)`,
			prom: `max(rdma_tracer_rss_bytes{FILTER})`,
		}},
	}, lines)
}
