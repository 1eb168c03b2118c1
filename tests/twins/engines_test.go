package twins

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"

	board "rdma_events/assets/grafana"
	"rdma_events/tests/grafana"
	"rdma_events/tests/influx"
)

// isFacts reports whether a panel shows texts side by side.
func isFacts(p *board.Panel) bool {
	return p.Type == "stat" && p.Targets[0].ResultFormat == "table" || p.Targets[0].Format == "table" && p.Type == "stat"
}

func (v *view) fromInfluxDB(d *board.Dashboard, p *board.Panel) (answer, error) {
	span, step, err := grafana.View(p, v.span)
	if err != nil {
		return nil, err
	}
	choice := maps.Clone(v.choice)
	choice["database"], choice["policy"] = []string{v.influx.Database}, []string{"autogen"}
	a := answer{}
	for _, target := range p.Targets {
		query := grafana.Macros(grafana.Render(target.Query, d.Templating.List, choice), span, step)
		found, err := v.influx.Query(v.ctx, query)
		if err != nil {
			return nil, err
		}
		switch {
		case isFacts(p):
			for _, s := range found {
				for i := range s.Columns[1:] {
					a.set("facts", strconv.Itoa(i), scaledValue(s.Values[len(s.Values)-1][i+1], ""))
				}
			}
		case p.Type == "table":
			a.rows(p, rowsOf(found))
		default:
			for _, s := range found {
				a.ofInfluxDB(p, &target, &s)
			}
		}
	}
	a.zeros(p)
	return a, nil
}

func rowsOf(found []influx.Series) []map[string]any {
	var rows []map[string]any
	for _, s := range found {
		for _, values := range s.Values {
			row := map[string]any{}
			for tag, value := range s.Tags {
				row[tag] = value
			}
			for i, column := range s.Columns {
				if column == "time" {
					column = "Time"
				}
				row[column] = values[i]
			}
			rows = append(rows, row)
		}
	}
	return rows
}

func (a answer) ofInfluxDB(p *board.Panel, target *board.Target, s *influx.Series) {
	for _, column := range s.Columns[1:] {
		values, _ := s.Numbers(column)
		if len(values) == 0 {
			continue
		}
		if p.Type == "stat" {
			value := values[len(values)-1] * unitFactor(p.FieldConfig.Defaults.Unit)
			if slices.ContainsFunc(p.Transformations, func(t board.Transform) bool { return t.ID == "calculateField" }) {
				before, _ := strconv.ParseFloat(a[target.RefID]["value"], 64) // 0 before the first
				value += before
			}
			a.set(target.RefID, "value", formatNumber(value))
			continue
		}
		name := strings.ReplaceAll(target.Alias, "$col", column)
		for tag, value := range s.Tags {
			name = strings.ReplaceAll(name, "$tag_"+tag, value)
		}
		a.summary(p, name, values)
	}
}

func (v *view) fromPrometheus(d *board.Dashboard, p *board.Panel) (answer, error) {
	span, step, err := grafana.View(p, v.span)
	if err != nil {
		return nil, err
	}
	a := answer{}
	var merged []map[string]any
	for _, target := range p.Targets {
		expr := grafana.PromQL(target.Expr, d.Templating.List, v.choice, span, step, interval)
		if !target.Instant {
			found, err := v.past.QueryRange(v.ctx, expr, span.From.Truncate(step).Add(step), span.To, step)
			if err != nil {
				return nil, err
			}
			for _, s := range found {
				a.summary(p, legendText(target.LegendFormat, s.Metric), valuesOf(s))
			}
			continue
		}
		found, err := v.prom.Query(v.ctx, expr, span.To)
		if err != nil {
			return nil, err
		}
		switch {
		case isFacts(p):
			for _, s := range found {
				for i, label := range shownLabels(p) {
					a.set("facts", strconv.Itoa(i), scaledValue(string(s.Metric[model.LabelName(label)]), ""))
				}
			}
		case p.Type == "table":
			column := "Value"
			if len(p.Targets) > 1 {
				column += " #" + target.RefID
			}
			merged = mergeRows(merged, found, column)
		default:
			for _, s := range found {
				a.set(target.RefID, "value", formatNumber(float64(s.Value)*unitFactor(p.FieldConfig.Defaults.Unit)))
			}
		}
	}
	if p.Type == "table" {
		a.rows(p, merged)
	}
	a.zeros(p)
	return a, nil
}

// zeros adds what a number shows if its query has no result.
func (a answer) zeros(p *board.Panel) {
	if p.Type != "stat" || isFacts(p) {
		return
	}
	for _, target := range p.Targets {
		if a[target.RefID] == nil {
			a.set(target.RefID, "value", p.FieldConfig.Defaults.NoValue)
		}
	}
}

// mergeRows adds the values of a vector to the rows with the same labels, as Grafana's transformation merge does.
func mergeRows(rows []map[string]any, found model.Vector, column string) []map[string]any {
	for _, s := range found {
		row := map[string]any{}
		for name, value := range s.Metric {
			row[string(name)] = string(value)
		}
		row = rowWith(&rows, row)
		row[column] = formatNumber(float64(s.Value))
	}
	return rows
}

// rowWith returns the row with these labels and perhaps values or others, or a new one.
func rowWith(rows *[]map[string]any, labels map[string]any) map[string]any {
	for _, row := range *rows {
		fits := true
		for name, value := range labels {
			if have, ok := row[name]; ok && have != value {
				fits = false
			}
		}
		if fits {
			maps.Copy(row, labels)
			return row
		}
	}
	*rows = append(*rows, labels)
	return labels
}

var fieldsPattern = regexp.MustCompile(`^/\^\((.*)\)\$/$`)

// shownLabels are the labels that a panel of facts shows.
func shownLabels(p *board.Panel) []string {
	fields, _ := p.Options["reduceOptions"].(map[string]any)["fields"].(string)
	if m := fieldsPattern.FindStringSubmatch(fields); m != nil {
		return strings.Split(m[1], "|")
	}
	return nil
}

func valuesOf(s *model.SampleStream) []float64 {
	var all []float64
	for _, v := range s.Values {
		all = append(all, float64(v.Value))
	}
	return all
}

var legendLabel = regexp.MustCompile(`\{\{(\w+)\}\}`)

func legendText(format string, labels model.Metric) string {
	return legendLabel.ReplaceAllStringFunc(format, func(name string) string {
		return string(labels[model.LabelName(strings.Trim(name, "{}"))])
	})
}
