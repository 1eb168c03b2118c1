package gen

import (
	"strings"
	"time"

	"rdma_events/internal/applications/trace"
	"rdma_events/internal/sys/status"
)

// errorTypes returns the types of events that are errors as alternatives of a regular expression.
func errorTypes() string {
	var names []string
	for _, t := range trace.EventTypes() {
		if trace.IsError(t) {
			names = append(names, t.String())
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

// appErrorLogs asks a Loki for events of these types.
func appErrorLogs() *logQuery {
	return &logQuery{"rdma_app_event", []string{logsOfApps, `event=~"` + errorTypes() + `"`}}
}

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

// appErrorQueries ask for the events themselves, since a series of counters begins with the first one.
func appErrorQueries() queries {
	return queries{
		steps: []step{{
			query: `SELECT sum("count") AS "errors" FROM {rdma_app_event} WHERE {filter}` + notOwnText + errorEvents() + ` GROUP BY ` + byApp,
			from:  30 * time.Minute,
		}},
		promql: `max without (unit) ` + recentAppErrors(notOwnProm),
	}
}
