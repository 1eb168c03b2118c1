package gen

import (
	"rdma_events/assets/grafana"
	"rdma_events/internal/agent/alerts"
)

// byProblem are the tags that distinguish problems.
const byProblem = byDevice + `, "port", "alert", "severity", "of"`

// currentProblems adds the table of all problems that hosts report now, the critical ones first and the oldest of them
// on top. Each plugin judges its own host, as for `rdma-events health`.
func (b *board) currentProblems() {
	b.table(panel{
		id: 45, title: "Problems now", width: 24, height: 10,
		help: help{
			"Up to 1,000 problems that hosts report now, as `rdma-events health` does on each host: critical ones first, and the oldest of them on top.",
			"critical: jobs on that device have failed or will fail.",
			"if many hosts of one place have the same problem, look at the list Firing first: ports-down-together and fabric-group are about the switch, " +
				"and it does not help to drain its hosts. Otherwise drain the hosts with critical problems, and follow the column *what to do*. " +
				"`rdma-events explain` and docs/reference/alerts.md have all steps of an alert.",
			"silent hosts, which the tile counts; alerts that compare hosts or need the past of hours, such as wake-slow, which the list Firing has.",
		},
		queries: []query{{
			text: `SELECT last("since_ns") / 1000000 AS "since", last("text") AS "text", last("do") AS "do" FROM (SELECT last("active") AS "active",
				last("since_ns") AS "since_ns", last("text") AS "text", last("do") AS "do" FROM {rdma_problem} WHERE {filter}
				GROUP BY ` + byProblem + `) WHERE "active" = 1 AND $timeFilter GROUP BY ` + byProblem,
			prom: `1000 * max by (PLACE, host, plugin_instance, device, port, alert, severity, of, do) (label_join(rdma_problem_since_seconds{FILTER}
				and rdma_problem_active{FILTER} == 1, "do", "", "alert"))`,
		}},
	}, b.toRow(), append([]column{
		{name: "host"}, {name: "severity"}, {name: "alert", title: "problem"}, {name: "device"}, {name: "port"},
		{name: "since", prom: "Value", title: "since", unit: "dateTimeFromNow"},
		{name: "text", prom: none, title: "what"}, {name: "do", title: "what to do"}, {name: "of"},
	}, b.location()...)...)
	b.over("3m") // a problem is reported once a minute
	titles, firstSteps := grafana.Mapping{Type: "value", Options: map[string]grafana.Mapped{}}, grafana.Mapping{Type: "value",
		Options: map[string]grafana.Mapped{}}
	for i, a := range alerts.Table() {
		titles.Options[a.ID] = grafana.Mapped{Text: a.Title, Color: "text", Index: i}
		firstSteps.Options[a.ID] = grafana.Mapped{Text: a.FirstSteps[0], Color: "text", Index: i}
	}
	b.mapped("problem", titles)
	b.mapped("severity", grafana.Mapping{Type: "value", Options: map[string]grafana.Mapped{
		string(alerts.Critical): {Text: "critical", Color: "red"}, string(alerts.Warning): {Text: "warning", Color: "orange", Index: 1},
	}})
	since := "since"
	if b.engine == Prometheus {
		b.mapped("what to do", firstSteps)
		since = "Value"
	}
	b.first(1000, sortedBy(since, false), sortedBy("severity", false))
}
