package twins

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/tests/grafana"
	"rdma_events/tests/influx"
)

// form is a query of a panel or a rule in a form that InfluxDB 1.8 understands and InfluxDB 3 does not, according to its documentation
// (tests/influx3).
type form struct {
	place string // UID and ID of a panel, or UID of a rule
	// plain returns the other form of a shipped query. If it changes nothing, the query has no other form.
	plain func(query string) string
	// rows returns what is compared. nil: the whole answer.
	rows func([]influx.Series) []string
}

func otherForms() []form {
	return []form{
		{place: "rdma-events-fleet 10", plain: withoutSelectors},
		{place: "rdma-events-fleet 11", plain: plainForm(`SELECT "reason", "age", "present", "worker_state" FROM (SELECT last("open") AS "open",
			last("present") AS "present", last("worker_state") AS "worker_state", last("reason") AS "reason", max("age") AS "age" FROM
			(SELECT last("open") AS "open", last("present") AS "present", last("worker_state") AS "worker_state", last("reason") AS "reason",
			last("open") * 0 AS "age" FROM "autogen"."rdma_device" WHERE FILTER AND RECENT GROUP BY DEVICE),
			(SELECT elapsed("open", 1ns) AS "age" FROM
			(SELECT last("open") AS "open" FROM "autogen"."rdma_device" WHERE FILTER AND "open" = 1 GROUP BY DEVICE),
			(SELECT last("open") AS "open" FROM "autogen"."rdma_device" WHERE FILTER GROUP BY DEVICE) WHERE TIMES GROUP BY DEVICE)
			WHERE TIMES GROUP BY DEVICE) WHERE "open" = 0 AND "reason" != 'renamed' AND "reason" != 'reassigned' AND "reason" != 'deleted'
			AND "reason" != 'other_netns' AND "reason" != 'unwatchable' AND TIMES GROUP BY DEVICE`)},
		{place: "rdma-events-fleet 33", plain: withoutSelectors},
		{place: "rdma-events-fleet 38", plain: withoutSelectors},
		{place: "rdma-events-fleet 41", plain: plainForm(`SELECT "age", "status", "busy" FROM (SELECT last("stuck") AS "stuck", last("busy") AS "busy",
			last("status") AS "status", max("age") AS "age" FROM (SELECT last("stuck") AS "stuck", last("busy_ns") AS "busy", last("status") AS "status",
			last("stuck") * 0 AS "age" FROM "autogen"."rdma_command" WHERE FILTER AND RECENT GROUP BY DEVICE, "port", "call"),
			(SELECT elapsed("stuck", 1ns) AS "age" FROM
			(SELECT last("stuck") AS "stuck" FROM "autogen"."rdma_command" WHERE FILTER AND "stuck" = 0 GROUP BY DEVICE, "port", "call"),
			(SELECT last("stuck") AS "stuck" FROM "autogen"."rdma_command" WHERE FILTER GROUP BY DEVICE, "port", "call")
			WHERE TIMES GROUP BY DEVICE, "port", "call")
			WHERE TIMES GROUP BY DEVICE, "port", "call") WHERE "stuck" = 1 AND TIMES GROUP BY DEVICE, "port", "call"`)},
		{place: "rdma-events-fabric 10", plain: withoutSelectors},
		{place: "rdma-events-fabric 11", plain: withoutSelectors},
		{place: "rdma-events-applications 12", plain: withoutSelectors},
		{place: "rdma-events-fabric 15", plain: plainForm(`SELECT 100.0 * ("there" + "back") / "sent" AS "Value", "own_group", "peer_group" FROM LOSS`)},
		{place: "rdma-events-fabric 17", plain: plainForm(`SELECT top("Value", "own_group", "peer_group", 20) AS "Value" FROM (SELECT
			100.0 * ("there" + "back") / "sent" AS "Value" FROM LOSS GROUP BY "own_group", "peer_group") WHERE TIMES`)},
		{place: "rdma-events-fleet 18", plain: withShareInCeil},
		{place: "rdma-events-fleet 44", plain: groupedBySeries, rows: sortedRows},
		{place: "rdma-ports-down-together", plain: withCableBesideSelector},
	}
}

// loss is the part of a query that both panels of loss between groups have.
const loss = `(SELECT sum("there") AS "there", sum("back") AS "back", sum("sent") AS "sent" FROM
	(SELECT last("forward_lost") - min("forward_lost") AS "there", last("reverse_lost") - min("reverse_lost") AS "back",
	last("sent") - min("sent") AS "sent" FROM "autogen"."rdma_fabric" WHERE FILTER GROUP BY
	"site", "rack", "rail", "host", "instance", "own_group", "peer_group", "scope")
	WHERE TIMES GROUP BY "own_group", "peer_group") WHERE "sent" > 0 AND TIMES`

var (
	// The second form is that of panels with a time of their own.
	timesInQuery  = regexp.MustCompile(`(time >= \d+ms and time <= \d+ms|time > \d+ms - \w+ AND time <= \d+ms)`)
	filterInQuery = regexp.MustCompile(timesInQuery.String() + `( AND "\w+" =~ /[^/]*/)*`)
	recentInQuery = regexp.MustCompile(`time > \d+ms - \w+`)
)

// recentIn returns the condition of a query for recent points, apart from the one for its times.
func recentIn(query string) string {
	return recentInQuery.FindString(timesInQuery.ReplaceAllString(query, ""))
}

// plainForm returns a function that puts the conditions of a query into another one.
func plainForm(template string) func(query string) string {
	template = strings.ReplaceAll(strings.Join(strings.Fields(template), " "), "LOSS", loss)
	return func(query string) string {
		return strings.NewReplacer(
			"FILTER", filterInQuery.FindString(query), "TIMES", timesInQuery.FindString(query), "RECENT", recentIn(query),
			"DEVICE", `"site", "rack", "rail", "host", "instance", "device"`,
		).Replace(template)
	}
}

var selectedValue = regexp.MustCompile(`last\(("\w+")\) AS`)

// withoutSelectors selects the fields of a subquery's rows instead of their last values.
func withoutSelectors(query string) string {
	outer, inner, _ := strings.Cut(query, " FROM ")
	return selectedValue.ReplaceAllString(outer, "$1 AS") + " FROM " + inner
}

var shareOfCount = regexp.MustCompile(`ceil\("share"\) AS "bad" FROM \(SELECT (max\("\w+"\)) / \(max\("\w+"\) \+ 1\.0\) AS "share" (.*? fill\(none\))\)\)`)

// withShareInCeil computes the share within the function.
func withShareInCeil(query string) string {
	return shareOfCount.ReplaceAllString(query, `ceil($1 / ($1 + 1)) AS "bad" $2)`)
}

// groupedBySeries has the tags of a table in GROUP BY.
func groupedBySeries(query string) string {
	columns, rest, _ := strings.Cut(query, " FROM ")
	fields, tags, _ := strings.Cut(columns, `"top", `)
	return fields + `"top" FROM ` + strings.Replace(rest, " ORDER BY", " GROUP BY "+tags+" ORDER BY", 1)
}

var fallenInSources = regexp.MustCompile(`^SELECT sum\("n"\) AS "down" FROM ` +
	`\(SELECT count\("up"\) AS "n" FROM \(SELECT last\("up"\) AS "up" FROM \(SELECT .*? (FROM \S+ WHERE .*?) (GROUP BY .*?)\) ` +
	`WHERE .*? GROUP BY .*?\) WHERE (.*?)\), \(.*$`)

// withCableBesideSelector takes the cable from the point of the last state.
func withCableBesideSelector(query string) string {
	return fallenInSources.ReplaceAllString(query,
		`SELECT count(distinct("cable")) + count("up") - count("cable") AS "down" FROM `+
			`(SELECT last("up") AS "up", "cable" $1 AND "expected_up" = 1 $2) WHERE "up" = 0 AND $3 fill(0)`)
}

// sortedRows returns the rows of an answer, whose tags may be columns, from the first to the last in the order of the text.
func sortedRows(answer []influx.Series) []string {
	var rows []string
	for _, s := range answer {
		for _, values := range s.Values {
			row := map[string]any{}
			for tag, value := range s.Tags {
				row[tag] = value
			}
			for i, column := range s.Columns {
				row[column] = values[i]
			}
			maps.DeleteFunc(row, func(_ string, value any) bool { return value == nil || value == "" })
			rows = append(rows, fmt.Sprint(row))
		}
	}
	slices.Sort(rows)
	return rows
}

// compareForms requires of each rewritten query that InfluxDB answers the other form with the same, and once at least with something.
func (w *twins) compareForms(t *testing.T) {
	for _, f := range otherForms() {
		answered := false
		for at := 20 * time.Minute; at < hour; at += 13*time.Minute + offset {
			for _, query := range w.queriesOf(t, f.place, hourStart().Add(at)) {
				plain := f.plain(query)
				if plain == query {
					continue
				}
				want, err := w.influx.Query(t.Context(), plain)
				require.NoError(t, err, f.place)
				have, err := w.influx.Query(t.Context(), query)
				require.NoError(t, err, f.place)
				answered = answered || len(want) > 0
				if f.rows != nil {
					require.Equal(t, f.rows(want), f.rows(have), "%s at %v: %s", f.place, at, query)
					continue
				}
				require.Equal(t, want, have, "%s at %v: %s", f.place, at, query)
			}
		}
		require.True(t, answered, "%s: no answer", f.place)
	}
}

// queriesOf returns the queries of a panel that shows half an hour, or of a rule, at a moment.
func (w *twins) queriesOf(t *testing.T, place string, at time.Time) []string {
	t.Helper()
	var queries []string
	boards, err := grafana.Dashboards(root)
	require.NoError(t, err)
	for uid, d := range boards {
		requests, err := grafana.Requests(d, grafana.Choice{"policy": {"autogen"}}, grafana.Range{From: at.Add(-30 * time.Minute), To: at})
		require.NoError(t, err)
		for _, r := range requests {
			if fmt.Sprint(uid, " ", r.Panel.ID) == place {
				queries = append(queries, r.Query)
			}
		}
	}
	rules, err := grafana.Rules(root)
	require.NoError(t, err)
	for _, g := range rules.Groups {
		for i := range g.Rules {
			if g.Rules[i].UID == place {
				for _, r := range grafana.RuleRequests(&g.Rules[i], at) {
					queries = append(queries, r.Query)
				}
			}
		}
	}
	require.NotEmpty(t, queries, place)
	return queries
}
