package influxdb_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/assets/influxdb"
	"rdma_events/tests/history"
	"rdma_events/tests/influx"
	"rdma_events/tests/rig"
)

const database = "rdma"

// runStatements executes statements as the curl command in the documents does.
func runStatements(t *testing.T, s *influx.Server, influxQL string) {
	t.Helper()
	_, err := s.Query(t.Context(), "", influxQL)
	require.NoError(t, err)
}

// sharedStatements returns the statements that the program writes for a database that others also write to.
func sharedStatements(t *testing.T, database string) string {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.Command(rig.Program(t, "RDMA_EVENTS_BIN", "rdma-events"), "assets", "-database", database, "-out", dir).CombinedOutput()
	require.NoError(t, err, string(out))
	text, err := os.ReadFile(filepath.Join(dir, "influxdb/downsampling.influxql"))
	require.NoError(t, err)
	return string(text)
}

// retentionPolicies returns the retention policies of a database, as InfluxDB lists them.
func retentionPolicies(t *testing.T, s *influx.Server, database string) map[string]string {
	t.Helper()
	got, err := s.Query(t.Context(), "", "SHOW RETENTION POLICIES ON "+influx.Quote(database))
	require.NoError(t, err)
	require.Len(t, got, 1)
	all := map[string]string{}
	for _, row := range got[0].Values {
		all[row[0].(string)] = fmt.Sprint(row[1:]...)
	}
	return all
}

// writeOldPoint writes a point of another input that is a month old.
func writeOldPoint(t *testing.T, s *influx.Server, database string) {
	t.Helper()
	line := fmt.Sprintf("cpu,host=a usage_idle=1 %d\n", time.Now().Add(-30*24*time.Hour).UnixNano())
	require.NoError(t, s.Write(t.Context(), database, strings.NewReader(line)))
}

func TestOtherInputsHistoryStaysAsItWas(t *testing.T) {
	for name, script := range map[string]func(t *testing.T) string{
		"own database": func(*testing.T) string { return influxdb.Downsampling },
		"shared":       func(t *testing.T) string { return sharedStatements(t, "telegraf") },
	} {
		t.Run(name, func(t *testing.T) {
			s := influx.Start(t)
			require.NoError(t, s.CreateDatabase(t.Context(), "telegraf"))
			writeOldPoint(t, s, "telegraf")
			before := retentionPolicies(t, s, "telegraf")
			runStatements(t, s, script(t))
			after := retentionPolicies(t, s, "telegraf")
			maps.DeleteFunc(after, func(policy, _ string) bool { return strings.HasPrefix(policy, "rdma_") })
			require.Equal(t, before, after)
			require.EqualValues(t, 1, onlyNumber(t, s, `SELECT count("usage_idle") FROM "telegraf".."cpu"`))
			writeOldPoint(t, s, "telegraf")
		})
	}
}

// Telegraf or a person may have created the database. Its retention must not change.
func TestDatabaseThatIsThereIsRefused(t *testing.T) {
	s := influx.Start(t)
	require.NoError(t, s.CreateDatabase(t.Context(), database))
	before := retentionPolicies(t, s, database)
	_, err := s.Query(t.Context(), "", influxdb.Downsampling)
	require.ErrorIs(t, err, influx.ErrRefused)
	require.True(t, strings.HasSuffix(err.Error(), "not executed"), "docs/how-to/large-clusters.md quotes it")
	require.Equal(t, before, retentionPolicies(t, s, database))
	runStatements(t, s, sharedStatements(t, database))
	require.Contains(t, retentionPolicies(t, s, database), "rdma_raw")
}

func TestNewerStatementsReplaceOlderOnes(t *testing.T) {
	s := influx.Start(t)
	runStatements(t, s, strings.ReplaceAll(influxdb.Downsampling, `, max("rss_bytes") AS "rss_bytes"`, ""))
	runStatements(t, s, influxdb.Downsampling)
	got, err := s.Query(t.Context(), "", "SHOW CONTINUOUS QUERIES")
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(got), `max(rss_bytes) AS rss_bytes`)
	runStatements(t, s, influxdb.Downsampling)
}

// writeHistory writes the history of two hosts, one of them with many events.
func writeHistory(t *testing.T, s *influx.Server, c history.Config) {
	t.Helper()
	c.Hosts = []history.Host{{Name: "a", Scenario: "mixed"}, {Name: "b", Profile: "dual"}}
	w := s.NewWriter(t.Context(), database)
	require.NoError(t, c.Write(t.Context(), w))
	require.NoError(t, w.Flush())
}

// onlyNumber returns the second column of the only row in a query's result.
func onlyNumber(t *testing.T, s *influx.Server, influxQL string) float64 {
	t.Helper()
	got, err := s.Query(t.Context(), database, influxQL)
	require.NoError(t, err)
	require.Len(t, got, 1, influxQL)
	values, _ := got[0].Numbers(got[0].Columns[1])
	require.Len(t, values, 1, influxQL)
	return values[0]
}

func TestWhatIsKeptForLongSumsUpToWhatWas(t *testing.T) {
	s := influx.Start(t)
	runStatements(t, s, influxdb.Downsampling)
	end := time.Now().Truncate(5 * time.Minute)
	start := end.Add(-30 * time.Minute)
	writeHistory(t, s, history.Config{Start: start, End: end, Interval: 10 * time.Second})
	for _, statement := range influxdb.Selects(start, end) {
		_, err := s.Query(t.Context(), "", statement)
		require.NoError(t, err)
	}
	for _, query := range []string{
		`SELECT sum("count") FROM "rdma"."POLICY"."rdma_async_event" WHERE "event" = 'port_err'`,
		`SELECT sum("transitions") FROM "rdma"."POLICY"."rdma_port_change"`,
		`SELECT last("flaps") FROM "rdma"."POLICY"."rdma_port" WHERE "host" = 'a' AND "device" = 'sim0'`,
		`SELECT max("wake_ns_p99") FROM "rdma"."POLICY"."rdma_cq_probe" WHERE "host" = 'a'`,
		`SELECT min("present") FROM "rdma"."POLICY"."rdma_device" WHERE "host" = 'a'`,
		`SELECT last("lost_events") FROM "rdma"."POLICY"."rdma_cq_probe" WHERE "host" = 'a' AND "device" = 'sim0' AND "method" = 'ud_send'`,
	} {
		was := onlyNumber(t, s, strings.Replace(query, "POLICY", "raw", 1))
		require.Equal(t, was, onlyNumber(t, s, strings.Replace(query, "POLICY", "long", 1)), query)
	}
	require.EqualValues(t, 6, onlyNumber(t, s, `SELECT count("uptime_ns") FROM "rdma"."long"."rdma_collector" WHERE "host" = 'b'`))
}

// The server runs continuous queries at multiples of their interval. The test
// shortens the interval.
func TestTheServerRunsThem(t *testing.T) {
	s := influx.Start(t)
	quick := strings.NewReplacer("time(5m)", "time(1s)", "RESAMPLE FOR 10m", "RESAMPLE FOR 30m").Replace(influxdb.Downsampling)
	runStatements(t, s, quick)
	now := time.Now()
	writeHistory(t, s, history.Config{Start: now.Add(-5 * time.Minute), End: now, Interval: 10 * time.Second})
	deadline := time.After(time.Minute)
	poll := time.NewTicker(200 * time.Millisecond)
	defer poll.Stop()
	for _, measurement := range []string{
		"rdma_async", "rdma_async_event", "rdma_port", "rdma_port_change", "rdma_cq_probe", "rdma_device", "rdma_collector",
	} {
		for {
			got, err := s.Query(t.Context(), database, `SELECT * FROM "rdma"."long"."`+measurement+`" LIMIT 1`)
			require.NoError(t, err)
			if len(got) > 0 {
				break
			}
			select {
			case <-deadline:
				require.FailNow(t, "nothing is kept for long", measurement)
			case <-poll.C:
			}
		}
	}
}
