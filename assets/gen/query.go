package gen

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"rdma_events/assets/grafana"
)

// query is a question of a panel, in the language of each engine, before its placeholders are expanded. One that has
// only one of the languages is for that engine alone. In text RECENT is the condition of what is reported now, for a panel
// whose range is longer. In prom FILTER stands for the dashboard's condition, PORTS,
// PROBES and APPS for those of the chosen ports, vectors and applications, and PLACE for the labels of places.
type query struct {
	text  string    // InfluxQL
	prom  string    // PromQL
	logs  *logQuery // the same of a Loki, in dashboards for Prometheus; nil: it has no answer
	alias string    // the name of the series; $tag_port stands for the tag or label port
}

// inInterval asks for the least or the greatest value of each series in each interval of a panel, or for its last one if no
// scrape falls into the interval. aggregation is min or max.
func inInterval(aggregation, series string) string {
	return aggregation + "_over_time(" + series + "[$__interval]) or " + series
}

// eventCounts asks for the events of each type that has come on few devices. Of a fleet they have to be recorded.
const eventCounts = `sum by (event) (increase(rdma_async_events_total{FILTER}[$__interval])) > 0`

// counterQuery returns a query for the increase of a counter in each interval, summed over all series. conditions is ofPorts, ofProbes or
// "".
func counterQuery(alias, field, measurement, conditions string) query {
	return query{
		alias: alias, text: summedIncrease(field, measurement, conditions, "time($__interval) fill(0)"),
		prom: "sum (" + counterIncrease(field, measurement, conditions) + ")",
	}
}

// countedBy is like counterQuery, for each value of a tag.
func countedBy(tag, alias, field, measurement, conditions string) query {
	return query{
		alias: alias + ", " + tag + " $tag_" + tag,
		text:  summedIncrease(field, measurement, conditions, `time($__interval), "`+tag+`" fill(0)`),
		prom:  "sum by (" + tag + ") (" + counterIncrease(field, measurement, conditions) + ")",
	}
}

func counterIncrease(field, measurement, conditions string) string {
	filter := map[string]string{"": "FILTER", ofPorts: "FILTER,PORTS", ofProbes: "FILTER,PROBES"}[conditions]
	return "increase(" + measurement + "_" + field + "_total{" + filter + "}[$__interval])"
}

// perInterval is the increase of a counter within an interval of a panel.
var perInterval = regexp.MustCompile(`increase\(([^()]+)\[\$__interval\]\)`)

// withoutGaps has increases begin one scrape before their interval, as $__rate_interval does: otherwise what a counter
// grows between the last scrape in one interval and the first in the next would be in neither. The result is that of
// the interval alone again, in whole numbers if it counts.
func withoutGaps(text string) string {
	return perInterval.ReplaceAllStringFunc(text, func(found string) string {
		grown := strings.Replace(found, "[$__interval]", "[$__rate_interval]", 1) + " * $__interval_ms / $__rate_interval_ms"
		if strings.Contains(found, "_seconds_total") {
			return grown
		}
		return "round(" + grown + ")"
	})
}

// promQL replaces the placeholders of a query.
func (b *board) promQL(text string) string {
	ports := `port=~"$port"`
	var filter []string
	for _, tag := range b.tags {
		filter = append(filter, fmt.Sprintf(`%[1]s=~"$%[1]s"`, tag))
	}
	place := ""
	if len(b.options.Labels) > 0 {
		place = b.options.inPromQL() + ", "
	}
	return strings.NewReplacer("FILTER", strings.Join(filter, ","), "PORTS", ports, "PROBES", ports+`,vector=~"$vector"`,
		"APPS", `device=~"$device",app=~"$app"`, "PLACE, ", place).
		Replace(withoutGaps(strings.Join(strings.Fields(text), " ")))
}

// momentsShown is the number of the newest moments that a table shows.
const momentsShown = 200

// target returns a query for the board's engine. ok is false if it has none in that language.
func (b *board) target(q query, kind, format string) (t grafana.Target, ok bool) {
	if b.engine == InfluxDB {
		labels := ""
		if format == "table" && slices.ContainsFunc(b.tags, func(tag string) bool { return slices.Contains(b.options.Labels, tag) }) {
			labels = b.options.inInfluxQL() // where there are many hosts, a row says where its own is
		}
		return grafana.Target{
			DataSource: b.dataSource(), RawQuery: true, ResultFormat: format,
			Query: b.influxQL(q.text, labels), Alias: q.alias,
		}, q.text != ""
	}
	if q.logs != nil {
		return b.lokiTarget(q.logs, momentsShown), b.options.Loki != ""
	}
	instant := format == "table" || kind == "stat"
	return grafana.Target{
		DataSource: b.dataSource(), Expr: b.promQL(q.prom), Instant: instant, Range: !instant, Format: format,
		LegendFormat: tagRef.ReplaceAllString(q.alias, "{{$1}}"),
	}, q.prom != ""
}

// influxQL replaces the placeholders of a query.
func (b *board) influxQL(text, labels string) string {
	text = strings.ReplaceAll(text, "RECENT", "time > ${__to}ms - "+formatDuration(b.options.recent()))
	return b.names.expand(text, `"$policy".`, b.filter, labels)
}

var tagRef = regexp.MustCompile(`\$tag_(\w+)`)

// summedIncrease returns the query for the increase of a counter, summed over all tags that are not in by. A restart of the plugin resets
// its counters to 0; this decrease is ignored.
func summedIncrease(field, measurement, conditions, by string) string {
	if by != "" {
		by = " GROUP BY " + by
	}
	return strings.NewReplacer("FIELD", field, "MEASUREMENT", measurement, "CONDITIONS", conditions).Replace(
		`SELECT sum("d") AS "FIELD" FROM (SELECT non_negative_difference("FIELD") AS "d" FROM {MEASUREMENT}
		WHERE {filter}CONDITIONS GROUP BY `+series[measurement]+`) WHERE $timeFilter`) + by
}

// increasedSeries returns the query for the increase of a counter in each series in which it increased. Differences between successive
// points, as in summedIncrease, would take seconds for thousands of devices; this query takes a tenth of that time. If the plugin restarted
// in the range, the result is the greater of the increases before and after the restart.
func increasedSeries(field, measurement string) string { return grownAny(measurement, "", field) }

// grownAny is like increasedSeries, for the greatest increase of several counters, in series that meet a further condition.
func grownAny(measurement, condition string, fields ...string) string {
	sources := make([]string, 0, len(fields))
	for _, field := range fields {
		sources = append(sources, counterIncreases(measurement, field, condition, 0))
	}
	return `SELECT max("n") AS "` + fields[0] + `" FROM ` + strings.Join(sources, ", ") + ` WHERE "n" > 0 AND $timeFilter GROUP BY ` + series[measurement]
}

// counterIncreases returns two sources of a query, with the increases of a counter before and after a restart of the plugin. It subtracts less
// from both.
func counterIncreases(measurement, field, condition string, less float64) string {
	return strings.NewReplacer("FIELD", field, "MEASUREMENT", measurement, "CONDITION", condition, "SERIES", series[measurement],
		"LESS", minusNumber(less)).Replace(`(SELECT max("FIELD") - first("FIELD")LESS AS "n" FROM {MEASUREMENT} WHERE {filter}CONDITION GROUP BY SERIES),
			(SELECT last("FIELD") - min("FIELD")LESS AS "n" FROM {MEASUREMENT} WHERE {filter}CONDITION GROUP BY SERIES)`)
}

// lastOf returns columns with the last value of each field. An outer query that groups by the tags of its subquery has a single row for each
// group, and returns it with these columns. To select the fields themselves is the same in InfluxDB 1.8, but InfluxDB 3 requires a function
// beside GROUP BY.
func lastOf(fields ...string) string {
	columns := make([]string, 0, len(fields))
	for _, field := range fields {
		columns = append(columns, fmt.Sprintf(`last(%[1]q) AS %[1]q`, field))
	}
	return strings.Join(columns, ", ")
}

// These are the tags that distinguish series. instance is set on hosts with
// several plugins, and empty on others. Rules add the labels of places, for
// notifications.
const (
	byHost   = `{labels}"host", "instance"`
	byDevice = byHost + `, "device"`
	byPort   = byDevice + `, "port"`
	byVector = byPort + `, "vector"`
	byProbe  = byVector + `, "method"`
	byCall   = byPort + `, "call"`
	byRole   = `, "role"` // of ports for management, whose problems are warnings
	byApp    = byDevice + `, "app"`
	byUnit   = byApp + `, "unit"`
)

// series has the tags that distinguish the series of each measurement.
var series = map[string]string{
	"rdma_async":     byPort,
	"rdma_port":      byPort + byRole,
	"rdma_cq_probe":  byProbe + byRole,
	"rdma_command":   byCall + byRole,
	"rdma_device":    byDevice,
	"rdma_host":      byHost,
	"rdma_collector": byHost,
	"rdma_tracer":    byHost,
	"rdma_problem":   byProblem,

	"rdma_app_async": byUnit,
	"rdma_app_hang":  byApp + `, "object"`,

	"rdma_fabric":      byGroupPair,
	"rdma_fabric_port": byPort + `, "own_group"` + byRole,
}
