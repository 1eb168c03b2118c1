package twins

import (
	"maps"
	"strconv"
	"strings"
	"time"

	"rdma_events/internal/agent/alerts"
)

// difference is a panel in which the engines differ, for a reason.
type difference struct {
	panel  string // UID and ID
	reason string
	// allowed removes from an answer what may differ; the rest may not. nil: everything may differ.
	allowed func(*view, answer) answer
}

func differenceOf(panel string) *difference {
	for _, e := range knownDifferences() {
		if e.panel == panel {
			return &e
		}
	}
	return nil
}

func knownDifferences() []difference {
	return []difference{
		{
			panel: "rdma-events-fleet 11",
			reason: "promtool evaluates a recording rule at each time by itself, and the age in Prometheus is by one that reads its own past " +
				"(a real Prometheus evaluates it in assets/prometheus)",
			allowed: func(_ *view, a answer) answer { return dropColumn(a, "age") },
		},
		{
			panel: "rdma-events-fleet 41", reason: "likewise, of the age of a command that is stuck",
			allowed: func(_ *view, a answer) answer { return dropColumn(a, "age") },
		},
		{
			panel:   "rdma-events-fleet 45",
			reason:  "InfluxDB has the first step as a text, and Prometheus the ID of the alert, for which Grafana shows the first step",
			allowed: func(_ *view, a answer) answer { return withFirstSteps(a) },
		},
		{
			panel: "rdma-events-device 26", reason: "the line of the past begins in InfluxDB with four hours of reports, in Prometheus with the first",
			allowed: func(_ *view, a answer) answer { return rowsWithoutPrefix(a, "5 times its past") },
		},
		{
			panel: "rdma-events-fleet 9", reason: "of the hosts that report, which fill up the twenty rows is chance",
			allowed: func(v *view, a answer) answer {
				if v.span.To.Sub(hourStart()) > 40*time.Minute {
					return answer{} // all of them report again
				}
				return onlyRow(a, "host plugin-silent")
			},
		},
		{
			panel: "rdma-events-fleet 15",
			reason: "InfluxDB takes the greatest of five minutes and Prometheus the present one, so that of devices that are alike other " +
				"ones are the ten slowest",
			allowed: func(_ *view, a answer) answer { return rowsAbove(a, "p99", 200e-6) },
		},
		{
			panel: "rdma-events-fleet 42", reason: "likewise, of the ten devices with the slowest commands",
			allowed: func(_ *view, a answer) answer { return rowsAbove(a, "p99", 200e-6) },
		},
		{
			panel: "rdma-events-fleet 20", reason: "a scrape has no state that a change ended in",
			allowed: func(_ *view, a answer) answer { return sumCounts(a) },
		},
		{
			panel: "rdma-events-device 13", reason: "a scrape has no single outages, only the time of all",
			allowed: func(_ *view, a answer) answer { return nil },
		},
		{
			panel: "rdma-events-applications 9", reason: "the counters of an application begin with its first event, and what one begins with is no growth",
			allowed: func(_ *view, a answer) answer { return nil },
		},
		{
			panel: "rdma-events-applications 15", reason: "likewise",
			allowed: func(_ *view, a answer) answer { return nil },
		},
		{
			panel: "rdma-events-device 9", reason: "InfluxDB has what was there in the range, Prometheus what is there now",
			allowed: func(v *view, a answer) answer {
				if v.choice["host"][0] == "plugin-silent" {
					return nil
				}
				return a
			},
		},
	}
}

// onlyRow returns one row of an answer.
func onlyRow(a answer, name string) answer {
	if a[name] == nil {
		return nil
	}
	return answer{name: a[name]}
}

// rowsAbove returns the rows whose value in a column is above a bound.
func rowsAbove(a answer, column string, bound float64) answer {
	some := answer{}
	for name, values := range a {
		if x, err := strconv.ParseFloat(values[column], 64); err == nil && x > bound {
			some[name] = values
		}
	}
	return some
}

// dropColumn removes a column from all rows.
func dropColumn(a answer, column string) answer {
	some := answer{}
	for name, values := range a {
		some[name] = maps.Clone(values)
		delete(some[name], column)
	}
	return some
}

// withFirstSteps replaces the ID of an alert by its first step.
func withFirstSteps(a answer) answer {
	const column = "what to do"
	some := answer{}
	for name, values := range a {
		some[name] = maps.Clone(values)
		for _, alert := range alerts.Table() {
			if values[column] == alert.ID {
				some[name][column] = alert.FirstSteps[0]
			}
		}
	}
	return some
}

// rowsWithoutPrefix returns the rows whose name does not begin with a text.
func rowsWithoutPrefix(a answer, begin string) answer {
	some := answer{}
	for name, values := range a {
		if !strings.HasPrefix(name, begin) {
			some[name] = values
		}
	}
	return some
}

// sumCounts adds up the counts of all series.
func sumCounts(a answer) answer {
	sum := 0.0
	for _, values := range a {
		n, _ := strconv.ParseFloat(values["sum"], 64) // counts are numbers
		sum += n
	}
	return answer{"all": {"sum": formatNumber(sum)}}
}
