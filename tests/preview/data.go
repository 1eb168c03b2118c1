package preview

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"rdma_events/assets/grafana"
	emulated "rdma_events/tests/grafana"
	"rdma_events/tests/influx"
)

// picture is the data that a page draws; assets/preview/src/picture.ts has the same
// type.
type picture struct {
	Title   string  `json:"title"`
	Caption string  `json:"caption"`
	From    int64   `json:"from"` // unix ms
	To      int64   `json:"to"`
	Panels  []drawn `json:"panels"`
}

type drawn struct {
	Panel  grafana.Panel `json:"panel"`
	Series []series      `json:"series"`
}

type series struct {
	Name   string  `json:"name"`
	Times  []int64 `json:"times"` // unix ms
	Values []any   `json:"values"`
}

// columns is the width of Grafana's grid.
const columns = 24

// data queries the values of all panels of a dashboard that can be drawn.
func data(ctx context.Context, db *influx.Server, d *grafana.Dashboard, choice emulated.Choice, r emulated.Range) ([]drawn, error) {
	requests, err := emulated.Requests(d, choice, r)
	if err != nil {
		return nil, err
	}
	byPanel := map[int]*drawn{}
	var order []int
	for _, q := range requests {
		if q.Panel.Type != "timeseries" && q.Panel.Type != "stat" {
			continue
		}
		got, err := db.Query(ctx, "", q.Query)
		if err != nil {
			return nil, fmt.Errorf("panel %q: %w", q.Panel.Title, err)
		}
		one := byPanel[q.Panel.ID]
		if one == nil {
			one = &drawn{Panel: *q.Panel, Series: []series{}} // a panel without data says so
			byPanel[q.Panel.ID] = one
			order = append(order, q.Panel.ID)
		}
		one.Series = append(one.Series, named(got, target(q))...)
	}
	var all []drawn
	for _, id := range order {
		all = append(all, *byPanel[id])
	}
	return lay(all), nil
}

func target(q emulated.Request) grafana.Target {
	i := slices.IndexFunc(q.Panel.Targets, func(t grafana.Target) bool { return t.RefID == q.RefID })
	return q.Panel.Targets[i]
}

// named makes a series of each column and names it as Grafana's InfluxDB data
// source does: in a table by the column, else by the alias, else by measurement,
// column and tags.
func named(got []influx.Series, t grafana.Target) []series {
	var all []series
	for i := range got {
		s := &got[i]
		times := s.Column("time")
		for _, column := range s.Columns[1:] {
			one := series{Name: name(s, column, t), Values: s.Column(column)}
			for _, at := range times {
				ns, _ := at.(json.Number).Int64() // InfluxDB writes no other times
				one.Times = append(one.Times, ns/1e6)
			}
			all = append(all, one)
		}
	}
	return all
}

func name(s *influx.Series, column string, t grafana.Target) string {
	if t.ResultFormat == "table" {
		return column
	}
	if t.Alias == "" {
		var tags []string
		for _, key := range slices.Sorted(maps.Keys(s.Tags)) {
			tags = append(tags, key+": "+s.Tags[key])
		}
		if len(tags) == 0 {
			return s.Name + "." + column
		}
		return fmt.Sprintf("%s.%s {%s}", s.Name, column, strings.Join(tags, ", "))
	}
	pairs := []string{"$col", column, "$m", s.Name}
	for key, value := range s.Tags {
		pairs = append(pairs, "$tag_"+key, value)
	}
	return strings.NewReplacer(pairs...).Replace(t.Alias)
}

// lay closes the gaps that panels of other types leave in the grid.
func lay(all []drawn) []drawn {
	x, y, height := 0, 0, 0
	for i := range all {
		at := &all[i].Panel.GridPos
		if x+at.W > columns || height > 0 && at.H != height {
			x, y = 0, y+height
		}
		at.X, at.Y = x, y
		x, height = x+at.W, at.H
	}
	return all
}

func rows(all []drawn) int {
	n := 0
	for _, d := range all {
		n = max(n, d.Panel.GridPos.Y+d.Panel.GridPos.H)
	}
	return n
}
