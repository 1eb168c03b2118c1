package preview

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	assets "rdma_events/assets/grafana"
	alerttable "rdma_events/internal/agent/alerts"
	"rdma_events/tests/grafana"
	"rdma_events/tests/history"
)

// requireProblem requires that the table of problems is about an alert of a host, and says since when it holds.
func requireProblem(t *testing.T, rows []visible, host, device, title string, age time.Duration) {
	t.Helper()
	for _, v := range rows {
		if v.panel != "Problems now" || v.cells["host"] != host || titleOf(t, v.cells["problem"]) != title {
			continue
		}
		require.Equal(t, device, v.cells["device"])
		ms, err := v.cells["since"].(interface{ Float64() (float64, error) }).Float64()
		require.NoError(t, err)
		began := time.UnixMilli(int64(ms))
		require.InDelta(t, age.Seconds(), historyEnd().Sub(began).Seconds(), 2*interval.Seconds()+1, "age of %s of %s", title, host)
		require.NotEmpty(t, v.cells["what to do"])
		return
	}
	t.Errorf("no problem %q of %s: %v", title, host, rows)
}

// titleOf returns the title of an alert.
func titleOf(t *testing.T, id any) string {
	t.Helper()
	all := alerttable.Table()
	i := slices.IndexFunc(all, func(a alerttable.Alert) bool { return a.ID == id })
	require.GreaterOrEqual(t, i, 0, "%v is no alert", id)
	return all[i].Title
}

// opened returns a dashboard with its closed rows opened, at its end.
func opened(d *assets.Dashboard) *assets.Dashboard {
	all := *d
	all.Panels = nil
	var closed []assets.Panel
	height := 0
	for _, p := range d.Panels {
		height = max(height, p.GridPos.Y+p.GridPos.H)
		if p.Panels != nil {
			closed = append(closed, *p.Panels...)
		}
		p.Panels = nil
		all.Panels = append(all.Panels, p)
	}
	for _, p := range closed {
		p.GridPos.Y += height
		all.Panels = append(all.Panels, p)
	}
	return &all
}

// One look at the first screen says of each fault where it is and since when.
func TestEachOfSixFaultsStandsInTheUpper900PixelsWithHostDeviceAndAge(t *testing.T) {
	const root = "../.."
	boards, err := grafana.Dashboards(root)
	require.NoError(t, err)
	overview := subjects()[0]
	kept := 0 // of the healthy hosts one in five, to save time
	overview.hosts = slices.DeleteFunc(overview.hosts, func(h history.Host) bool {
		kept++
		return kept%5 != 0 && !slices.ContainsFunc(troubles(), func(f trouble) bool { return h.Name == fmt.Sprintf("node%04d", f.host) })
	})
	c := Config{Root: root}
	p, err := c.picture(t.Context(), &overview, opened(boards[overview.uid]))
	require.NoError(t, err)
	rows := p.above(math.MaxInt)
	first := p.above(900)
	var listed []alert
	for _, d := range p.Panels {
		listed = append(listed, d.Alerts...)
	}
	tables := map[string]int{}
	for _, f := range troubles() {
		host := fmt.Sprintf("node%04d", f.host)
		i := slices.IndexFunc(rows, func(v visible) bool { return v.panel == f.table && v.cells["host"] == host })
		require.GreaterOrEqual(t, i, 0, "%s in %s: %v", host, f.table, rows)
		cells := rows[i].cells
		require.Equal(t, f.device, cells["device"])
		want := historyEnd().Sub(historyEnd().Add(-overview.span - before + f.at))
		require.InDelta(t, want.Seconds(), float64(integer(t, cells["age"]))/1e9, 2*interval.Seconds()+1, "age of %s", host)
		tables[f.table]++
		for _, rule := range f.rules {
			requireProblem(t, first, host, f.device, rule, want)
		}
		for _, rule := range f.rules {
			require.True(t, slices.ContainsFunc(listed, func(a alert) bool {
				return a.Title == rule && a.State == "firing" && len(a.Where) > len(host) && a.Where[:len(host)] == host
			}), "%s of %s: %v", rule, host, listed)
		}
	}
	for _, table := range []string{"Ports down", "Devices missing or not watched", "Links slow", "Failing probes", "Commands stuck"} {
		n := 0
		for _, v := range rows {
			if v.panel == table {
				n++
			}
		}
		require.Equal(t, tables[table], n, table)
	}
}

func integer(t *testing.T, v any) int64 {
	t.Helper()
	n, err := v.(interface{ Int64() (int64, error) }).Int64()
	require.NoError(t, err)
	return n
}
