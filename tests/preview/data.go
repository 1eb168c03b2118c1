package preview

import (
	"context"
	"encoding/json"
	"errors"
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
	Head    int     `json:"head"` // pixels above the first panel
	From    int64   `json:"from"` // unix ms
	To      int64   `json:"to"`
	Panels  []drawn `json:"panels"`
}

type drawn struct {
	Panel  grafana.Panel `json:"panel"`
	Series []series      `json:"series"`
	Table  *table        `json:"table,omitempty"`
	Alerts []alert       `json:"alerts,omitempty"`
}

type series struct {
	Name   string  `json:"name"`
	Times  []int64 `json:"times"` // unix ms
	Values []any   `json:"values"`
}

// errPanel is wrapped by the error about a panel of a type that nothing here draws.
var errPanel = errors.New("no drawing for panels of this type")

// dashboardData queries the values of all panels of a dashboard, except the panels of closed rows, which are not drawn.
func dashboardData(ctx context.Context, src emulated.Source, d *grafana.Dashboard, rules *grafana.RuleFile, choice emulated.Choice,
	r emulated.Range) ([]drawn, error) {
	requests, err := emulated.Requests(d, choice, r)
	if err != nil {
		return nil, err
	}
	answers := map[int][]answer{}
	for _, q := range requests {
		got, err := src.Query(ctx, q.Query)
		if err != nil {
			return nil, fmt.Errorf("panel %q: %w", q.Panel.Title, err)
		}
		answers[q.Panel.ID] = append(answers[q.Panel.ID], answer{requestTarget(q), got})
	}
	var all []drawn
	for _, p := range d.Panels {
		one := drawn{Panel: p, Series: []series{}} // a panel without data says so
		switch p.Type {
		case "row":
		case "timeseries", "stat", "state-timeline", "status-history":
			for _, a := range answers[p.ID] {
				one.Series = append(one.Series, namedSeries(a.series, a.of)...)
			}
			if p.Type == "stat" && len(p.Transformations) > 0 { // they add up what is there
				one.Series = sumSeries(one.Series)
			}
		case "table":
			one.Table, err = tableOf(&p, answers[p.ID])
		case "alertlist":
			one.Alerts, err = firingAlerts(ctx, src, rules, r)
		default:
			err = fmt.Errorf("%s: %w", p.Type, errPanel)
		}
		if err != nil {
			return nil, fmt.Errorf("panel %q: %w", p.Title, err)
		}
		all = append(all, one)
	}
	return all, nil
}

// sumSeries adds up series of single values at the same time into one series. Of no series it returns none.
func sumSeries(all []series) []series {
	if len(all) == 0 {
		return all
	}
	sum := 0.0
	for _, s := range all {
		for _, v := range s.Values {
			n, _ := v.(json.Number).Float64() // the database writes no other values
			sum += n
		}
	}
	return []series{{Name: "sum", Times: all[0].Times[:1], Values: []any{sum}}}
}

// answer is what the database says to a query of a panel.
type answer struct {
	of     grafana.Target
	series []influx.Series
}

func requestTarget(q emulated.Request) grafana.Target {
	i := slices.IndexFunc(q.Panel.Targets, func(t grafana.Target) bool { return t.RefID == q.RefID })
	return q.Panel.Targets[i]
}

// namedSeries makes a series of each column and names it as Grafana's InfluxDB data
// source does: in a table by the column, else by the alias, else by measurement,
// column and tags.
func namedSeries(got []influx.Series, t grafana.Target) []series {
	var all []series
	for i := range got {
		s := &got[i]
		times := s.Column("time")
		for _, column := range s.Columns[1:] {
			one := series{Name: seriesName(s, column, t), Values: s.Column(column)}
			for _, at := range times {
				ns, _ := at.(json.Number).Int64() // InfluxDB writes no other times
				one.Times = append(one.Times, ns/1e6)
			}
			all = append(all, one)
		}
	}
	return all
}

func seriesName(s *influx.Series, column string, t grafana.Target) string {
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

func gridRows(all []drawn) int {
	n := 0
	for _, d := range all {
		n = max(n, d.Panel.GridPos.Y+d.Panel.GridPos.H)
	}
	return n
}
