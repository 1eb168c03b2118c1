package grafana

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/tests/history"
	"rdma_events/tests/influx"
)

// InfluxDB mixed up rows when there were many hosts and some of them lacked a field.
func TestEveryRowOfPortsDownIsAboutOnePort(t *testing.T) {
	src := Source{Server: influx.Start(t), Database: "telegraf"}
	require.NoError(t, src.Server.CreateDatabase(t.Context(), src.Database))
	now := historyStart().Add(askew)
	for i := range 15 {
		h := history.Host{Name: fmt.Sprint("h", i), Profile: "fleet1"}
		switch i {
		case 3, 12: // down for two minutes, and for one
			h.Timeline = fmt.Sprintf("[[link]]\nat = \"%dm\"", 9-i%2)
		case 5:
			h.Timeline = "[[fault]]\nkind = \"removed\"\nat = \"2m\""
		case 6, 9:
			h.Timeline = "[[link]]\nat = \"9m\"\ndown_for = \"40ms\""
		}
		c := history.Config{Start: now.Add(-10 * time.Minute), End: now, Interval: 10 * time.Second, Hosts: []history.Host{h}}
		var lines bytes.Buffer
		require.NoError(t, c.Write(t.Context(), &lines))
		require.NoError(t, src.Server.Write(t.Context(), src.Database, &lines))
	}
	down := map[string]float64{}
	for _, q := range tableNamed(t, src, `SELECT last("state_age_ns")`, now) {
		series, err := src.Query(t.Context(), q)
		require.NoError(t, err)
		for _, s := range series {
			age, _ := s.Numbers("state_age_ns")
			require.Len(t, age, 1, s.Tags)
			down[s.Tags["host"]] = age[0] / 60e9
		}
	}
	require.Len(t, down, 2)
	require.InDelta(t, 2, down["h3"], 0.2)
	require.InDelta(t, 1, down["h12"], 0.2)
}

// tableNamed returns the queries of the fleet's tables that ask for a field.
func tableNamed(t *testing.T, src Source, field string, now time.Time) []string {
	t.Helper()
	boards, err := Dashboards(root)
	require.NoError(t, err)
	choice := Choice{"policy": {"autogen"}}
	requests, err := Requests(boards["rdma-events-fleet"], choice, Range{now.Add(-time.Hour), now})
	require.NoError(t, err)
	var queries []string
	for _, r := range requests {
		if r.Panel.Type == "table" && bytes.Contains([]byte(r.Query), []byte(field)) {
			queries = append(queries, r.Query)
		}
	}
	require.Len(t, queries, 1)
	return queries
}

// A device is removed first, and its function is given away some seconds later.
func TestOnlyTheLastReasonMakesADeviceMissing(t *testing.T) {
	src := Source{Server: influx.Start(t), Database: "telegraf"}
	require.NoError(t, src.Server.CreateDatabase(t.Context(), src.Database))
	rule, group := ruleNamed(t, "rdma-device-missing")
	now := historyStart().Add(askew)
	missing := []string{"gone", "given back"}
	var lines bytes.Buffer
	for at := now.Add(-5 * time.Minute); !at.After(now); at = at.Add(10 * time.Second) {
		for host, reasons := range map[string][2]string{
			"gone": {"removed", "removed"}, "given back": {"reassigned", "removed"},
			"given away": {"removed", "reassigned"}, "called otherwise": {"removed", "renamed"},
			"deleted": {"deleted", "deleted"}, "in maintenance": {"removed", "released"}, "borrowed": {"other_netns", "other_netns"},
		} {
			reason := reasons[0]
			if now.Sub(at) < 90*time.Second {
				reason = reasons[1]
			}
			present := 0
			if reason == "other_netns" {
				present = 1
			}
			fmt.Fprintf(&lines, "rdma_device,host=%s,device=mlx5_0 present=%di,open=0i,worker_state=\"stopped\",reason=%q %d\n",
				strings.ReplaceAll(host, " ", `\ `), present, reason, at.UnixNano())
		}
	}
	require.NoError(t, src.Server.Write(t.Context(), src.Database, &lines))
	w, err := NewWatcher(rule, group)
	require.NoError(t, err)
	for ago := 80 * time.Second; ago >= 0; ago -= w.Interval() {
		require.NoError(t, w.Evaluate(t.Context(), src, now.Add(-ago)))
	}
	require.ElementsMatch(t, missing, hostsIn(w, Firing))

	var listed []string
	for _, q := range tableNamed(t, src, `"worker_state"`, now) {
		series, err := src.Query(t.Context(), q)
		require.NoError(t, err)
		for _, s := range series {
			listed = append(listed, s.Tags["host"])
		}
	}
	require.ElementsMatch(t, append(missing, "in maintenance"), listed, "whoever looks for a device finds that it is released")
}

func TestCountsBeforeARestartHideNoneAfterIt(t *testing.T) {
	src := Source{Server: influx.Start(t), Database: "telegraf"}
	require.NoError(t, src.Server.CreateDatabase(t.Context(), src.Database))
	now := historyStart().Add(askew)
	const flaps = "[[link]]\nat = \"5m\"\nevery = \"1m\"\ntimes = %d\ndown_for = \"40ms\""
	for _, run := range []struct {
		from, to time.Duration
		flaps    int
	}{{-2 * time.Hour, -30 * time.Minute, 7}, {-29 * time.Minute, 0, 3}} {
		c := history.Config{
			Start: now.Add(run.from), End: now.Add(run.to), Interval: 10 * time.Second,
			Hosts: []history.Host{{Name: "h", Profile: "fleet1", Timeline: fmt.Sprintf(flaps, run.flaps)}},
		}
		var lines bytes.Buffer
		require.NoError(t, c.Write(t.Context(), &lines))
		require.NoError(t, src.Server.Write(t.Context(), src.Database, &lines))
	}
	series, err := src.Query(t.Context(), tableNamed(t, src, "flaps", now)[0])
	require.NoError(t, err)
	require.Len(t, series, 1)
	counts, _ := series[0].Numbers("flaps")
	require.Equal(t, []float64{10}, counts, "of both runs: the table counts changes, and not by the counter that began anew")
}
