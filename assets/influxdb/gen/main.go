// Command gen writes the InfluxQL that keeps the plugin's metrics for long:
// retention, and a continuous query for each measurement of the table of
// metrics. `go generate ./assets/influxdb` runs it.
package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"

	"rdma_events/plugins/inputs/rdma_events"
)

func main() {
	if err := os.WriteFile(os.Args[1], statements(rdma_events.Metrics()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

const head = `-- Generated from the table of metrics; do not edit. Retention and down-sampling in the database telegraf:
-- raw points for a week, and one point in five minutes for a year under the same names in the policy "long".
ALTER RETENTION POLICY "autogen" ON "telegraf" DURATION 7d SHARD DURATION 1d;
CREATE RETENTION POLICY "long" ON "telegraf" DURATION 52w REPLICATION 1 SHARD DURATION 1w;
`

func statements(table []rdma_events.Metric) []byte {
	var b bytes.Buffer
	b.WriteString(head)
	for i := range table {
		query(&b, &table[i])
	}
	return b.Bytes()
}

// query writes a continuous query. It computes a bucket twice, so that
// what Telegraf writes a moment after the bucket has ended is taken in.
func query(b *bytes.Buffer, m *rdma_events.Metric) {
	fmt.Fprintf(b, "CREATE CONTINUOUS QUERY \"%s_5m\" ON \"telegraf\" RESAMPLE FOR 10m BEGIN\n  SELECT ", m.Name)
	var fields []string
	for _, f := range m.Fields {
		if !strings.Contains(f.Name, "<") { // unknown_<number> has no list
			fields = append(fields, fmt.Sprintf(aggregate(m.Name, f)+` AS "%[1]s"`, f.Name))
		}
	}
	for i, f := range fields {
		switch {
		case i == 0:
		case i%4 == 0:
			b.WriteString(",\n    ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(f)
	}
	fmt.Fprintf(b, "\n  INTO \"telegraf\".\"long\".\"%s\" FROM \"telegraf\".\"autogen\".\"%s\" GROUP BY time(5m), *\nEND;\n", m.Name, m.Name)
}

// The aggregates, as formats. They keep a field's type; mean is for floats.
const (
	least    = `min("%[1]s")`
	greatest = `max("%[1]s")`
	latest   = `last("%[1]s")`
	total    = `sum("%[1]s")`
	mean     = `mean("%[1]s")`
	median   = `percentile("%[1]s", 50)`
)

// aggregate says what stands for the values of five minutes: of what is bad when
// it is low the least, of what is bad when it is high the greatest, of counters
// and names the last.
func aggregate(measurement string, f rdma_events.Field) string {
	if measurement == "rdma_async_event" || measurement == "rdma_port_change" {
		return ofHappening(f)
	}
	switch f.Name {
	case "up", "present", "open", "ok", "state":
		return least
	case "unacked", "rss_bytes", "worker_rss_bytes", "queue_length", "workers_stuck",
		"devices_missing", "devices_unwatched", "ports_down":
		return greatest
	}
	switch {
	case hasSuffix(f.Name, "_max", "_p90", "_p99"):
		return greatest
	case hasSuffix(f.Name, "_mean", "_p50"):
		return median
	case hasSuffix(f.Name, "_rate"):
		return mean
	}
	return latest
}

// ofHappening is aggregate for points that are written when something happens.
func ofHappening(f rdma_events.Field) string {
	switch {
	case f.Name == "count", f.Name == "transitions":
		return total
	case f.Name == "first_ns":
		return least
	case f.Unit == "ns":
		return greatest
	}
	return latest
}

func hasSuffix(name string, suffixes ...string) bool {
	return slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(name, s) })
}
