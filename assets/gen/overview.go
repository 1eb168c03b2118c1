package gen

import (
	"slices"

	"rdma_events/assets/grafana"
)

// overviewPoints is the number of points in time of a panel of the overview. Each point is
// computed from a series per device, so more points would cost seconds without
// showing more.
const overviewPoints = 60

func overviewDashboard(n *names, e Engine, o *Options) *grafana.Dashboard {
	b := newBoard(n, e, o, append(slices.Clone(o.Labels), "host"))
	b.points = overviewPoints
	b.row(1, "Now")
	b.currentProblems()
	b.overviewTiles()
	b.row(8, "Where")
	b.firing()
	b.silentHosts()
	b.collapsed(46, "Problems by kind", b.problemTables) // closed, because the queries are slow on many hosts
	b.row(16, "When")
	b.overviewHistory()
	b.latestCauses()
	b.row(22, "Worst")
	b.overviewWorst()
	b.collapsed(25, "Plugin", b.overviewPlugin)
	return b.dashboard(overviewUID, "RDMA overview",
		"RDMA devices of many hosts: what is wrong, where, and since when. No panel has a line per host.", "1m",
		[]grafana.Link{
			b.link("Device", deviceUID, "One device of one host"), b.link("Applications", appsUID, "Errors, hangs and objects of applications"),
		}, b.overviewVariables(), b.fatalEvents())
}

// fatalEvents marks every device that its driver gave up.
func (b *board) fatalEvents() grafana.Annotation {
	return b.annotation("Device fatal", "dark-red", "device", "host",
		query{
			text: `SELECT "count", "device", "host" FROM {rdma_async_event} WHERE {filter} AND "event" = 'device_fatal' ORDER BY time DESC LIMIT 1000`,
			prom: `increase(rdma_device_fatals_total{FILTER}[$__interval]) > 0.5`,
			logs: &logQuery{"rdma_async_event", []string{`event="device_fatal"`}},
		})
}

// brokenNow returns the thresholds of a count that is red from 1 on. With degradedNow it is orange instead.
func brokenNow() *grafana.Thresholds   { return newThresholds("green", level{1, "red"}) }
func degradedNow() *grafana.Thresholds { return newThresholds("green", level{1, "orange"}) }

func (b *board) overviewTiles() {
	const height = 4
	b.stat(panel{
		id: 3, title: "Hosts silent", width: 4, height: height,
		help: help{
			"Hosts whose plugin reported within the last day but does not report now, out of all hosts that reported. A host with several " +
				"instances counts as several.",
			"that there is one.",
			"the table of silent hosts names them. Is the host up? Does Telegraf run there?",
			"hosts that never reported.",
		},
		queries: []query{
			{
				alias: "silent",
				// All hosts of the day, less those that report now. Sums of one column need no value of either.
				text: `SELECT sum("n") AS "silent" FROM (SELECT last("uptime_ns") * 0 + 1 AS "n" FROM {rdma_collector} WHERE {filter} GROUP BY ` +
					byHost + `), (SELECT last("uptime_ns") * 0 - 1 AS "n" FROM {rdma_collector} WHERE {filter} AND RECENT GROUP BY ` + byHost +
					`) WHERE $timeFilter`,
				prom: `count(count by (host, plugin_instance) (last_over_time(` + reported + `{FILTER}[1d]))
					unless count by (host, plugin_instance) (rdma_collector_uptime_seconds{FILTER})) or vector(0)`,
			},
			{
				alias: "of", text: reporting,
				prom: `count(count by (host, plugin_instance) (last_over_time(` + reported + `{FILTER}[1d])))`,
			},
		},
	}, "0", brokenNow())
	b.over("1d")
	b.plain("of")
	b.troubleTiles()
}

// troubleTiles count what is wrong now.
func (b *board) troubleTiles() {
	const height = 4
	for _, tile := range []struct {
		id, width   int
		title       string
		field       string
		thresholds  *grafana.Thresholds
		description help
	}{
		{4, 4, "Ports down", "ports_down", brokenNow(), help{
			"Ports that are not active, except ports of `expected_down`.",
			"that a cable, a switch port or a subnet manager has failed.",
			"the table below names them, with their age.",
			"ports of silent hosts, and of devices that are missing or not open.",
		}},
		{5, 4, "Devices missing", "devices_missing", brokenNow(), help{
			"Devices that were present since the plugin started, or are listed in `expect`, but are not present now.",
			"a card failed, a driver was unloaded, or a virtual function was taken away.",
			"check `rdma link` and the kernel log of the host.",
			"devices that were missing before the plugin started, unless they are listed in `expect`.",
		}},
		{6, 3, "Not watched", "devices_unwatched", degradedNow(), help{
			"Devices that are present but that no worker has open.",
			nothing + "; orange means that events of these devices go unnoticed.",
			"see the column reason of the table below; docs/how-to/troubleshooting.md says what to do for each.",
			"why: the plugin's log does.",
		}},
		{40, 3, "Commands stuck", "commands_stuck", brokenNow(), help{
			"Calls that the firmware of a device does not answer: a call has lasted longer than `command_stuck`, or three calls in a row failed.",
			"that the firmware hangs. The port may stay active all the time.",
			"the table of stuck commands on the Overview names the device; see the steps of the alert command-stuck.",
			"drivers that answer from the host's memory, such as rxe and siw.",
		}},
	} {
		b.stat(panel{
			id: tile.id, title: tile.title, width: tile.width, height: height, now: true, help: tile.description,
			queries: []query{{text: sumOfLast(tile.field), prom: "sum(rdma_host_" + tile.field + "{FILTER})"}},
		}, "0", tile.thresholds)
	}
	b.stat(panel{
		id: 31, title: "Links slow", width: 3, height: height, now: true,
		help: help{
			"Active ports whose rate is below their expected rate.",
			nothing + "; orange means a link with fewer lanes or a lower speed than it should have.",
			"the table below has both rates.",
			"links that were never faster and have no expected rate.",
		},
		queries: []query{{
			text: `SELECT count("less") AS "ports" FROM (SELECT "expected" - "rate" AS "less" FROM (` + rates + `) WHERE "up" = 1 AND $timeFilter)
				WHERE "less" > 0 AND $timeFilter`,
			prom: `count(rdma_port_up{FILTER} == 1 and rdma_port_rate_bytes_per_second{FILTER} < rdma_port_rate_expected_bytes_per_second{FILTER}) or vector(0)`,
		}},
	}, "0", degradedNow())
	b.stat(panel{
		id: 32, title: "Probes failing", width: 3, height: height,
		help: help{
			"Probes with a failed round within the last 15 minutes: a lost event, a lost completion or an error.",
			"that there is one.",
			"the table of failing probes on the Overview has the three counts of each probe.",
			"vectors that are not probed.",
		},
		queries: []query{{
			text: `SELECT count("n") AS "probes" FROM (SELECT "events" + "completions" + "errors" AS "n" FROM (` + failures + `) WHERE $timeFilter)
				WHERE "n" > 0 AND $timeFilter`,
			prom: `count(sum by (host, plugin_instance, device, port, vector) (increase(rdma_cq_probe_lost_events_total{FILTER}[15m])
				+ increase(rdma_cq_probe_lost_completions_total{FILTER}[15m]) + increase(rdma_cq_probe_errors_total{FILTER}[15m])) > 0.5) or vector(0)`,
		}},
	}, "0", brokenNow())
	b.over("15m")
}

// rates are the present and the expected rate of each port.
const rates = `SELECT last("rate_gbps") AS "rate", last("rate_expected_gbps") AS "expected", last("up") AS "up",
	last("state_age_ns") AS "age" FROM {rdma_port} WHERE {filter} GROUP BY ` + byPort

// failures are the rounds of each probe that failed, by kind.
const failures = `SELECT last("lost_events") - min("lost_events") AS "events", last("lost_completions") - min("lost_completions") AS "completions",
	last("errors") - min("errors") AS "errors" FROM {rdma_cq_probe} WHERE {filter} GROUP BY ` + byProbe

// over makes the last panel show a time of its own, up to the end of the dashboard's range. A query for Prometheus looks back by itself.
func (b *board) over(span string) {
	if b.engine == InfluxDB {
		b.last().TimeFrom = span
	}
}

// plain gives one of the last panel's values the colour of information.
func (b *board) plain(name string) {
	b.last().FieldConfig.Overrides = append(b.last().FieldConfig.Overrides, grafana.Override{
		Matcher:    grafana.Matcher{ID: "byName", Options: name},
		Properties: []grafana.Property{{ID: "color", Value: map[string]any{"mode": "fixed", "fixedColor": "blue"}}},
	})
}

// firing adds the list of alerts.
func (b *board) firing() {
	b.add(grafana.Panel{
		ID: 35, Type: "alertlist", Title: "Firing", GridPos: grafana.GridPos{W: 12, H: 7},
		Description: "Alerts with the label component = rdma that fire or are pending, and since when.\n\n**Do:** the annotation do of each alert has " +
			"the first step, and `rdma-events explain` has the others.\n\n**Cannot see:** faults without a rule.",
		Options: map[string]any{
			"viewMode": "list", "groupMode": "default", "groupBy": []string{}, "maxItems": 50, "sortOrder": 3, "dashboardAlerts": false,
			"AlertName": "", "alertInstanceLabelFilter": `{component="rdma"}`, "showInstances": true, "datasource": "",
			"stateFilter": map[string]any{"firing": true, "pending": true, "noData": false, "normal": false, "error": true},
		},
	})
}

// sumOfLast returns the query for the sum of each plugin's last value of a field.
func sumOfLast(field string) string {
	return `SELECT sum("n") AS "sum" FROM (SELECT last("` + field + `") AS "n" FROM {rdma_host} WHERE {filter} GROUP BY ` + byHost + `)
		WHERE $timeFilter`
}

// reporting counts hosts. A host with several instances counts once for each. InfluxDB finds the last point of a series
// without reading the others.
const reporting = `SELECT count("uptime") AS "hosts" FROM (SELECT last("uptime_ns") AS "uptime"
	FROM {rdma_collector} WHERE {filter} GROUP BY ` + byHost + `) WHERE $timeFilter`

func (b *board) last() *grafana.Panel { return &b.panels[len(b.panels)-1] }

// first limits the last table to its first rows, after its transformations and those that are to come before them.
func (b *board) first(rows int, before ...grafana.Transform) {
	limit := grafana.Transform{ID: "limit", Options: map[string]any{"limitField": rows}}
	b.last().Transformations = append(append(before, b.last().Transformations...), limit)
}
