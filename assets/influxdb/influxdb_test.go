package influxdb_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/assets/influxdb"
	"rdma_events/tests/history"
	"rdma_events/tests/influx"
)

const database = "telegraf"

func open(t *testing.T) *influx.Server {
	t.Helper()
	s := influx.Start(t)
	require.NoError(t, s.CreateDatabase(t.Context(), database))
	return s
}

// write writes the history of a host to which something happens.
func write(t *testing.T, s *influx.Server, c history.Config) {
	t.Helper()
	c.Hosts = []history.Host{{Name: "a", Scenario: "lively"}, {Name: "b", Profile: "dual"}}
	w := s.NewWriter(t.Context(), database)
	require.NoError(t, c.Write(t.Context(), w))
	require.NoError(t, w.Flush())
}

// number is the last column of the only row that a query answers with.
func number(t *testing.T, s *influx.Server, influxQL string) float64 {
	t.Helper()
	got, err := s.Query(t.Context(), database, influxQL)
	require.NoError(t, err)
	require.Len(t, got, 1, influxQL)
	values, _ := got[0].Numbers(got[0].Columns[1])
	require.Len(t, values, 1, influxQL)
	return values[0]
}

func TestWhatIsKeptForLongSumsUpToWhatWas(t *testing.T) {
	s := open(t)
	_, err := s.Query(t.Context(), "", influxdb.Downsampling)
	require.NoError(t, err)
	end := time.Now().Truncate(5 * time.Minute)
	start := end.Add(-30 * time.Minute)
	write(t, s, history.Config{Start: start, End: end, Interval: 10 * time.Second})
	for _, statement := range influxdb.Selects(start, end) {
		_, err := s.Query(t.Context(), "", statement)
		require.NoError(t, err)
	}
	for _, query := range []string{
		`SELECT sum("count") FROM "telegraf"."POLICY"."rdma_async_event" WHERE "event" = 'port_err'`,
		`SELECT sum("transitions") FROM "telegraf"."POLICY"."rdma_port_change"`,
		`SELECT last("flaps") FROM "telegraf"."POLICY"."rdma_port" WHERE "host" = 'a' AND "device" = 'sim0'`,
		`SELECT max("wake_ns_p99") FROM "telegraf"."POLICY"."rdma_cq_probe" WHERE "host" = 'a'`,
		`SELECT min("present") FROM "telegraf"."POLICY"."rdma_device" WHERE "host" = 'a'`,
		`SELECT last("lost_events") FROM "telegraf"."POLICY"."rdma_cq_probe" WHERE "host" = 'a' AND "device" = 'sim0' AND "method" = 'rc_write'`,
	} {
		was := number(t, s, strings.Replace(query, "POLICY", "autogen", 1))
		require.Equal(t, was, number(t, s, strings.Replace(query, "POLICY", "long", 1)), query)
	}
	require.EqualValues(t, 6, number(t, s, `SELECT count("uptime_ns") FROM "telegraf"."long"."rdma_collector" WHERE "host" = 'b'`))
}

// The server runs continuous queries at multiples of their interval, which is
// made short here.
func TestTheServerRunsThem(t *testing.T) {
	s := open(t)
	quick := strings.NewReplacer("time(5m)", "time(1s)", "RESAMPLE FOR 10m", "RESAMPLE FOR 30m").Replace(influxdb.Downsampling)
	_, err := s.Query(t.Context(), "", quick)
	require.NoError(t, err)
	now := time.Now()
	write(t, s, history.Config{Start: now.Add(-5 * time.Minute), End: now, Interval: 10 * time.Second})
	deadline := time.After(time.Minute)
	poll := time.NewTicker(200 * time.Millisecond)
	defer poll.Stop()
	for _, measurement := range []string{
		"rdma_async", "rdma_async_event", "rdma_port", "rdma_port_change", "rdma_cq_probe", "rdma_device", "rdma_collector",
	} {
		for {
			got, err := s.Query(t.Context(), database, `SELECT * FROM "telegraf"."long"."`+measurement+`" LIMIT 1`)
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
