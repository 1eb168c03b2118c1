package gen

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"rdma_events/assets/influxdb"
	"rdma_events/internal/telemetry/measure"
)

const downsamplingHead = `-- Made by rdma-events assets from the table of metrics; do not edit. For InfluxDB 1.x: 2 and 3 have no continuous queries.
-- Raw points for a week, and one point in five minutes for a year under the same names.
`

// ownDatabase creates the database together with its default policy. If a database of that
// name already exists with another policy, InfluxDB refuses and does not run the
// statements that follow.
const ownDatabase = `-- The database %[1]q is the plugin's own; no other one is touched. If another %[1]q is there, the answer is "not executed".
CREATE DATABASE %[1]q WITH DURATION 7d REPLICATION 1 SHARD DURATION 1d NAME %[2]q;
`

const sharedDatabase = `-- The database %[1]q has other points too: nothing changes for them. Telegraf writes the plugin's to %[2]q.
CREATE RETENTION POLICY %[2]q ON %[1]q DURATION 7d REPLICATION 1 SHARD DURATION 1d;
`

const longPolicy = "CREATE RETENTION POLICY %q ON %q DURATION 52w REPLICATION 1 SHARD DURATION 1w;\n"

// downsampling returns the statements that create the policies and the continuous queries.
func downsampling(place influxdb.Place, table []measure.Metric) []byte {
	var b bytes.Buffer
	b.WriteString(downsamplingHead)
	begin := ownDatabase
	if place.Shared {
		begin = sharedDatabase
	}
	fmt.Fprintf(&b, begin, place.Database, place.Raw)
	fmt.Fprintf(&b, longPolicy, place.Long, place.Database)
	for i := range table {
		continuousQuery(&b, place, &table[i])
	}
	return b.Bytes()
}

// continuousQuery writes a continuous query. The query computes each bucket twice, so that
// points are included that Telegraf writes shortly after the end of the bucket. A
// query of an older version is dropped first, because InfluxDB refuses a different
// query of the same name.
func continuousQuery(b *bytes.Buffer, place influxdb.Place, m *measure.Metric) {
	fmt.Fprintf(b, "DROP CONTINUOUS QUERY \"%[1]s_5m\" ON %[2]q;\nCREATE CONTINUOUS QUERY \"%[1]s_5m\" ON %[2]q RESAMPLE FOR 10m BEGIN\n  SELECT ",
		m.Name, place.Database)
	var fields []string
	for _, f := range m.Fields {
		if !strings.Contains(f.Name, "<") { // unknown_<number> stands for any number of fields
			fields = append(fields, fmt.Sprintf(fieldAggregate(m.Name, f)+` AS "%[1]s"`, f.Name))
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
	fmt.Fprintf(b, "\n  INTO %[1]q.%[2]q.%[4]q FROM %[1]q.%[3]q.%[4]q GROUP BY time(5m), *\nEND;\n",
		place.Database, place.Long, place.Raw, m.Name)
}

// These are the aggregates, as formats. They keep a field's type; mean is only for
// floats.
const (
	least    = `min("%[1]s")`
	greatest = `max("%[1]s")`
	latest   = `last("%[1]s")`
	total    = `sum("%[1]s")`
	mean     = `mean("%[1]s")`
	median   = `percentile("%[1]s", 50)`
)

// fieldAggregate returns the aggregate for the values of a field within five minutes: the least if low values are bad, the greatest if high
// values are bad, and the last for counters and names.
func fieldAggregate(measurement string, f measure.Field) string {
	switch measurement {
	case "rdma_async_event", "rdma_port_change", "rdma_gid_change", "rdma_attr_change", "rdma_evidence", "rdma_app_event":
		return ofHappening(f)
	}
	if (measurement == "rdma_fabric_peer" || measurement == "rdma_fabric_port") && (f.Name == "bad" || f.Name == "age_ns") {
		return latest // they describe the verdict, of which the last is kept; pairs_bad keeps the worst moment
	}
	switch f.Name {
	case "up", "present", "open", "ok", "attached", "pairs_met":
		return least
	case "state":
		if f.Kind == measure.Int { // that of rdma_fabric_peer is a word
			return least
		}
	case "unacked", "rss_bytes", "worker_rss_bytes", "queue_length", "workers_stuck",
		"devices_missing", "devices_unwatched", "ports_down", "stuck", "busy_ns", "commands_stuck",
		"unread", "unread_errors", "unread_age_ns", "threads", "age_ns", "missing", "hooks_missing", "app_hangs", "app_unread_errors",
		"bad", "pairs_bad", "pairs_busy", "pairs_down", "fabric_pairs_bad", "fabric_ports_bad", "fabric_pairs_unmet":
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

// ofHappening is like aggregate, for points that are written when an event or a
// change happens.
func ofHappening(f measure.Field) string {
	switch {
	case f.Name == "count", f.Name == "transitions", f.Name == "changes", f.Name == "triggers":
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
