package preview

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"rdma_events/assets/grafana"
	emulated "rdma_events/tests/grafana"
)

// The sizes of Grafana's grid and of its tables, in pixels. assets/preview/src/page.tsx draws with the same.
const (
	gridWidth, gridGap, gridRow = 1400, 8, 38
	panelHead, tableRow         = 32, 36
	alertRow                    = 50
)

// table is a table as it is laid out.
type table struct {
	Columns []tableColumn `json:"columns"`
	Rows    [][]any       `json:"rows"`
}

type tableColumn struct {
	Name  string `json:"name"`
	Width int    `json:"width"` // pixels
}

// tableOf returns the table of a panel, with the widths that Grafana gives its columns: its own, or a share of what the
// others leave.
func tableOf(p *grafana.Panel, answers []answer) (*table, error) {
	frames := make([]emulated.Frame, len(answers))
	for i, a := range answers {
		frames[i] = emulated.Table(a.series)
		for _, row := range frames[i].Rows {
			at, _ := row[0].(json.Number).Int64() // InfluxDB writes no other times
			row[0] = at / 1e6
		}
	}
	f, err := emulated.Transform(frames, p.Transformations)
	if err != nil {
		return nil, err
	}
	t := &table{Rows: f.Rows}
	left, open := panelWidth(p), 0
	for _, name := range f.Columns {
		w := columnWidth(p, name)
		t.Columns = append(t.Columns, tableColumn{name, w})
		if left -= w; w == 0 {
			open++
		}
	}
	least, _ := p.FieldConfig.Defaults.Custom["minWidth"].(float64)
	for i := range t.Columns {
		if t.Columns[i].Width == 0 {
			t.Columns[i].Width = max(int(least), left/open)
		}
	}
	return t, nil
}

// panelWidth returns the width of a panel's content in pixels.
func panelWidth(p *grafana.Panel) int {
	const border = 2
	return p.GridPos.W*(gridWidth+gridGap)/24 - gridGap - border
}

// columnWidth returns the width that a panel gives to a column, or 0.
func columnWidth(p *grafana.Panel, name string) int {
	for _, o := range p.FieldConfig.Overrides {
		for _, property := range o.Properties {
			if w, ok := property.Value.(float64); ok && o.Matcher.Options == name && property.ID == "custom.width" {
				return int(w)
			}
		}
	}
	return 0
}

// alert is a line of an alert list.
type alert struct {
	Title    string `json:"title"`
	Severity string `json:"severity"`
	Where    string `json:"where"`
	State    string `json:"state"`
	Since    int64  `json:"since"` // unix ms
}

// firingAlerts evaluates the rules over the range that a dashboard shows.
func firingAlerts(ctx context.Context, src emulated.Source, rules *grafana.RuleFile, r emulated.Range) ([]alert, error) {
	found, err := emulated.Alerts(ctx, src, rules, r)
	if err != nil {
		return nil, err
	}
	all := make([]alert, len(found))
	for i, a := range found {
		var where []string
		for _, label := range []string{"site", "rack", "host", "device", "port"} {
			if v := a.Labels[label]; v != "" {
				where = append(where, cmp.Or(map[string]string{"port": "port "}[label], "")+v)
			}
		}
		all[i] = alert{
			Title: a.Rule.Title, Severity: cmp.Or(a.Labels["severity"], a.Rule.Labels["severity"]), Where: strings.Join(where, " "),
			State: map[emulated.State]string{emulated.Firing: "firing", emulated.Pending: "pending"}[a.State], Since: a.Since.UnixMilli(),
		}
	}
	return all, nil
}

// visible is a row of a table, as far as it is drawn above a line.
type visible struct {
	panel string
	cells map[string]any // by column
}

// above returns the rows of all tables that are drawn wholly in the upper pixels of a picture, with the columns that are
// wholly in their panel.
func (p *picture) above(pixels int) []visible {
	var all []visible
	for _, d := range p.Panels {
		if d.Table == nil {
			continue
		}
		top, bottom := p.Head+d.Panel.GridPos.Y*gridRow, p.Head+(d.Panel.GridPos.Y+d.Panel.GridPos.H)*gridRow-gridGap
		for i, row := range d.Table.Rows {
			if top+panelHead+(i+2)*tableRow > min(bottom, pixels) {
				break
			}
			v := visible{d.Panel.Title, map[string]any{}}
			right := 0
			for c, column := range d.Table.Columns {
				if right += column.Width; right <= panelWidth(&d.Panel) {
					v.cells[column.Name] = row[c]
				}
			}
			all = append(all, v)
		}
	}
	return slices.Clip(all)
}
