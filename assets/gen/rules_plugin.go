package gen

import "time"

// silence returns, for each plugin, whether its last point is in the last two
// buckets: the mean number of last points in these buckets, which is 0 if the last
// point is older. It takes two buckets, because the last one may just have begun.
// The first bucket begins before the time range, so the outer query has no
// $timeFilter: it would leave no result (InfluxDB 1.8). Counting all points instead
// of the last one would read a day of points.
func (o *Options) silence() string {
	return `SELECT last("n") AS "n" FROM (SELECT moving_average(count("uptime"), 2) AS "n" FROM (SELECT last("uptime_ns") AS "uptime"
		FROM {rdma_collector} WHERE {filter} GROUP BY ` + byHost + `) WHERE $timeFilter GROUP BY time(` + formatDuration(o.recent()) + `), ` +
		byHost + ` fill(0)) GROUP BY ` + byHost
}

// silentPlugins asks for the plugins that have stopped to report.
func (o *Options) silentPlugins() queries {
	return queries{
		noData: "Alerting",
		steps:  []step{{query: o.silence(), from: 24 * time.Hour}}, when: "$RA == 0",
		promql: `last_over_time(` + reported + `[1d]) unless on (host, plugin_instance) rdma_collector_uptime_seconds`, promHold: o.recent(),
	}
}

// noReports is for Prometheus alone: in Grafana's rules for InfluxDB that is the case of plugin-silent without a host.
func noReports() queries {
	return queries{promql: `absent(rdma_collector_uptime_seconds)`, promHold: 5 * time.Minute}
}
