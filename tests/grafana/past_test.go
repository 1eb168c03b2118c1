package grafana

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
	"rdma_events/tests/history"
	"rdma_events/tests/influx"
)

// The histories of the other faults have one hour before the fault; this rule
// queries four hours of the past.
func TestSlowWakeUpsAreHeldAgainstHoursOfThePast(t *testing.T) {
	const span = 7 * time.Hour
	src := Source{Server: influx.Start(t), Database: "telegraf"}
	require.NoError(t, src.Server.CreateDatabase(t.Context(), src.Database))
	rows := map[string]struct{ timeline, first, last string }{
		"healthy": {},
		"slow from the fifth hour on": {
			"[[fault]]\nkind = \"slow\"\nat = \"4h\"\nfactor = 40", "4h15m", "5h20m",
		},
		"slow for half an hour": {
			"[[fault]]\nkind = \"slow\"\nat = \"4h\"\nfactor = 40\nfor = \"30m\"", "4h15m", "4h35m",
		},
		"but three times as slow":    {timeline: "[[fault]]\nkind = \"slow\"\nat = \"4h\"\nfactor = 3"},
		"but for three minutes only": {timeline: "[[fault]]\nkind = \"slow\"\nat = \"4h\"\nfactor = 40\nfor = \"3m\""},
		"but always":                 {timeline: "[[fault]]\nkind = \"slow\"\nfactor = 40"},
	}
	for name, row := range rows {
		c := history.Config{
			Start: historyStart(), End: historyStart().Add(span), Interval: 10 * time.Second,
			Hosts: []history.Host{{Name: name, Profile: "fleet1", Timeline: row.timeline, Seed: 1}},
		}
		var lines bytes.Buffer
		require.NoError(t, c.Write(t.Context(), &lines), name)
		require.NoError(t, src.Server.Write(t.Context(), src.Database, &lines), name)
	}
	rule, group := ruleNamed(t, "rdma-wake-slow")
	fired, interval := watchRule(t, src, rule, group, span)
	for name, row := range rows {
		got := fired[name]
		if row.first == "" {
			require.Empty(t, got, name)
			continue
		}
		require.NotEmpty(t, got, name)
		t.Logf("%s: fires from %v to %v", name, got[0], got[len(got)-1])
		requireNear(t, row.first, got[0], interval, name)
		requireNear(t, row.last, got[len(got)-1], 30*time.Minute, name) // the tail of latencies is ragged
	}
}

// An update of the plugin may choose another method, which has another latency and no past. Its latency is not compared
// with the past of the old method, however fast that was.
func TestNewMethodIsNotHeldAgainstTheOld(t *testing.T) {
	const span, updated = 7 * time.Hour, 4 * time.Hour
	src := Source{Server: influx.Start(t), Database: "telegraf"}
	require.NoError(t, src.Server.CreateDatabase(t.Context(), src.Database))
	for _, run := range []struct {
		from, to         time.Duration
		method, timeline string
	}{
		{0, updated, "rc_write", ""},
		{updated, span, "ud_send", "[[fault]]\nkind = \"slow\"\nfactor = 40"},
	} {
		method, ok := verbs.ParseMethod(run.method)
		require.True(t, ok)
		c := history.Config{
			Start: historyStart().Add(run.from), End: historyStart().Add(run.to), Interval: 10 * time.Second, Method: method,
			Hosts: []history.Host{{Name: "updated", Profile: "fleet1", Timeline: run.timeline, Seed: 1}},
		}
		var lines bytes.Buffer
		require.NoError(t, c.Write(t.Context(), &lines))
		require.Contains(t, lines.String(), "method="+run.method)
		require.NoError(t, src.Server.Write(t.Context(), src.Database, &lines))
	}
	rule, group := ruleNamed(t, "rdma-wake-slow")
	fired, _ := watchRule(t, src, rule, group, span)
	require.Empty(t, fired)
}

func requireNear(t *testing.T, want string, got, slack time.Duration, name string) {
	t.Helper()
	d, err := time.ParseDuration(want)
	require.NoError(t, err)
	require.InDelta(t, d.Minutes(), got.Minutes(), slack.Minutes(), name)
}
