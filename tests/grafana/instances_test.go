package grafana

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/tests/history"
	"rdma_events/tests/influx"
)

// twoInstances writes an hour of a host with two plugins that watch the same port,
// which goes down after some flaps. last is the time of the second plugin's last
// report, relative to now.
func twoInstances(t *testing.T, now time.Time, last time.Duration) Source {
	t.Helper()
	src := Source{Server: influx.Start(t), Database: "telegraf"}
	require.NoError(t, src.Server.CreateDatabase(t.Context(), src.Database))
	const down = "[[link]]\nat = \"38m\"\n"
	for _, of := range []struct {
		instance, flaps string
		till            time.Duration
	}{
		{"a", "[[link]]\nat = \"10m\"\nevery = \"1m\"\ntimes = 2\ndown_for = \"40ms\"\n", 0},
		{"b", "[[link]]\nat = \"12m\"\nevery = \"1m\"\ntimes = 3\ndown_for = \"40ms\"\n", last},
	} {
		c := history.Config{
			Start: now.Add(-time.Hour), End: now.Add(of.till), Interval: 10 * time.Second,
			Hosts: []history.Host{{Name: "h", Tags: map[string]string{"instance": of.instance}, Profile: "fleet1", Timeline: of.flaps + down}},
		}
		var lines bytes.Buffer
		require.NoError(t, c.Write(t.Context(), &lines))
		require.NoError(t, src.Server.Write(t.Context(), src.Database, &lines))
	}
	return src
}

// panelTotal returns the sum of all values of a panel of a dashboard.
func panelTotal(t *testing.T, src Source, uid, title, kind string, now time.Time) float64 {
	t.Helper()
	boards, err := Dashboards(root)
	require.NoError(t, err)
	choice := Choice{"policy": {"autogen"}, "host": {"h"}, "device": {"sim0"}}
	requests, err := Requests(boards[uid], choice, Range{now.Add(-time.Hour), now})
	require.NoError(t, err)
	i := slices.IndexFunc(requests, func(r Request) bool { return r.Title == title && r.Panel.Type == kind })
	require.GreaterOrEqual(t, i, 0, title)
	series, err := src.Query(t.Context(), requests[i].Query)
	require.NoError(t, err)
	var sum float64
	for _, s := range series {
		for _, column := range s.Columns[1:] {
			values, _ := s.Numbers(column)
			for _, v := range values {
				sum += v
			}
		}
	}
	return sum
}

func TestFleetAddsUpTheInstancesOfAHost(t *testing.T) {
	now := historyStart().Add(askew)
	src := twoInstances(t, now, 0)
	const fleet, device = "rdma-events-fleet", "rdma-events-device"
	require.Zero(t, panelTotal(t, src, fleet, "Hosts silent", "stat", now))
	require.EqualValues(t, 2, panelTotal(t, src, fleet, "Ports down", "stat", now))
	require.EqualValues(t, 2+3, panelTotal(t, src, fleet, "Flappers of 7 days", "table", now))
	require.EqualValues(t, 2+3, panelTotal(t, src, device, "Flaps and disagreements", "timeseries", now))
	require.EqualValues(t, 1, panelTotal(t, src, device, "Ports down", "stat", now), "it is one port, which both watch")
}

func TestSilentInstanceIsNotHiddenByAnother(t *testing.T) {
	now := historyStart().Add(askew)
	src := twoInstances(t, now, -20*time.Minute)
	require.EqualValues(t, 1, panelTotal(t, src, "rdma-events-fleet", "Hosts silent", "stat", now))
	require.Equal(t, []string{"b"}, instancesOf(t, src, "rdma-plugin-silent", now))
	require.Equal(t, []string{"a"}, instancesOf(t, src, "rdma-port-down", now))
	require.Equal(t, []string{"a", "b"}, instancesOf(t, src, "rdma-plugin-silent", now.Add(20*time.Minute)))
}

// instancesOf returns the instances for which a rule's condition holds.
func instancesOf(t *testing.T, src Source, uid string, at time.Time) []string {
	t.Helper()
	rule, _ := ruleNamed(t, uid)
	numbers, err := Evaluate(t.Context(), src, rule, at)
	require.NoError(t, err)
	var names []string
	for _, n := range numbers {
		if n.Value == 1 {
			names = append(names, n.Labels["instance"])
		}
	}
	slices.Sort(names)
	return names
}
