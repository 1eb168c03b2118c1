package twins

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	board "rdma_events/assets/grafana"
)

// answer is what a panel shows: rows of a table, series over time, or numbers. Each has a name and values. A value is a
// text, or a number in seconds, bits a second, or what the panel counts.
type answer map[string]map[string]string

func (a answer) set(name, column, value string) {
	if a[name] == nil {
		a[name] = map[string]string{}
	}
	a[name][column] = value
}

// unitFactor returns the factor from a unit to the unit in which values are compared.
func unitFactor(unit string) float64 {
	switch unit {
	case "ns":
		return 1e-9
	case "Gbits":
		return 1e9
	}
	return 1
}

func formatNumber(x float64) string { return strconv.FormatFloat(x, 'g', 10, 64) }

// scaledValue returns a value in the unit in which values are compared.
func scaledValue(value any, unit string) string {
	text := ""
	switch x := value.(type) {
	case nil:
		return ""
	case string:
		text = x
	case json.Number:
		text = x.String()
	default:
		text = fmt.Sprint(x)
	}
	if x, err := strconv.ParseFloat(text, 64); err == nil {
		return formatNumber(x * unitFactor(unit))
	}
	return text
}

// unitOf returns the unit of a column of a panel.
func unitOf(p *board.Panel, title string) string {
	for _, o := range p.FieldConfig.Overrides {
		if o.Matcher.ID != "byName" || o.Matcher.Options != title {
			continue
		}
		for _, property := range o.Properties {
			if property.ID == "unit" {
				return property.Value.(string)
			}
		}
	}
	return p.FieldConfig.Defaults.Unit
}

// placeColumns returns the columns that locate a row: host, device, port and so on.
func placeColumns() []string {
	return []string{"host", "instance", "device", "port", "vector", "app", "own_group", "peer_group", "peer_host", "peer_device"}
}

// rows adds the rows of a table to an answer: under the names of the dashboard's columns, with the columns that it
// leaves out.
func (a answer) rows(p *board.Panel, rows []map[string]any) {
	for _, row := range applyTransformations(p, rows) {
		var name []string
		for _, place := range placeColumns() {
			if text, ok := row[place]; ok && text != nil && text != "" {
				name = append(name, fmt.Sprint(place, " ", text))
			}
		}
		values := map[string]string{}
		for title, value := range row {
			if !slices.Contains(placeColumns(), title) {
				values[title] = scaledValue(value, unitOf(p, title))
			}
		}
		if name == nil { // a row that counts: all but the count is its name
			for _, title := range slices.Sorted(maps.Keys(values)) {
				if title != "devices" && title != "ports" {
					name = append(name, title+" "+values[title])
					delete(values, title)
				}
			}
		}
		for title, value := range values {
			a.set(strings.Join(name, ", "), title, value)
		}
	}
}

// applyTransformations applies a panel's transformations that change names or rows. Order and limit change nothing here.
func applyTransformations(p *board.Panel, rows []map[string]any) []map[string]any {
	for _, tr := range p.Transformations {
		switch tr.ID {
		case "groupBy":
			rows = groupRows(rows, tr.Options["fields"].(map[string]any))
		case "organize":
			rows = organizeRows(rows, tr.Options)
		}
	}
	return rows
}

func groupRows(rows []map[string]any, fields map[string]any) []map[string]any {
	var out []map[string]any
	at := map[string]int{}
	for _, row := range rows {
		one, name, count := map[string]any{}, "", ""
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			if fields[field].(map[string]any)["operation"] == "groupby" {
				one[field] = row[field]
				name += fmt.Sprint(field, row[field], ";")
			} else {
				count = field + " (count)"
			}
		}
		i, ok := at[name]
		if !ok {
			i = len(out)
			at[name] = i
			one[count] = 0
			out = append(out, one)
		}
		out[i][count] = out[i][count].(int) + 1
	}
	return out
}

func organizeRows(rows []map[string]any, options map[string]any) []map[string]any {
	names, _ := options["renameByName"].(map[string]any)
	index, _ := options["indexByName"].(map[string]any)
	var out []map[string]any
	for _, row := range rows {
		one := map[string]any{}
		for column, value := range row {
			title := column
			if to, ok := names[column].(string); ok {
				title = to
			}
			if _, listed := index[column]; listed {
				one[title] = value
			}
		}
		out = append(out, one)
	}
	return out
}

// answerDifferences lists the differences between two answers: in names, in counts, and in times by more than a tenth.
func answerDifferences(a, b answer, p *board.Panel) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(unionOfNames(a, b))) {
		switch {
		case a[name] == nil:
			all = append(all, fmt.Sprintf("InfluxDB does not show %s (%v)", name, b[name]))
		case b[name] == nil:
			all = append(all, fmt.Sprintf("Prometheus does not show %s (%v)", name, a[name]))
		}
		for column, value := range a[name] {
			other, both := b[name][column]
			if both && !sameWithin(value, other, toleratedPart(p, column)) {
				all = append(all, fmt.Sprintf("%s, %s: InfluxDB %q, Prometheus %q", name, column, value, other))
			}
		}
	}
	return all
}

func unionOfNames(a, b answer) map[string]bool {
	all := map[string]bool{}
	for name := range a {
		all[name] = true
	}
	for name := range b {
		all[name] = true
	}
	return all
}

// toleratedPart returns the relative difference that is allowed between values of a column: a tenth for times and memory, a fifth
// for counts of each interval (increase() falls short where a counter begins at 0), and none for anything else. Up to four events
// must be the same number in both.
func toleratedPart(p *board.Panel, column string) float64 {
	if column == "sum" {
		return 0.2
	}
	unit := unitOf(p, column)
	if alwaysVaries(unit) {
		return 0.1
	}
	return 1e-6
}

// alwaysVaries reports whether values of a unit are never the same twice: times and memory.
func alwaysVaries(unit string) bool { return unit == "ns" || unit == "s" || unit == "bytes" }

func sameWithin(a, b string, part float64) bool {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	if cmp.Or(errX, errY) != nil {
		return a == b
	}
	return math.Abs(x-y) <= part*math.Max(math.Abs(x), math.Abs(y))
}

// enough is how many values a mean needs. Of fewer the engines see too many others, at 10 and at 15 seconds.
const enough = 30

// summary adds a series over time to an answer. Of bars it is their sum, since they count, and a series without any is
// none; of lines and timelines the last value, and of times and memory their mean: those are
// others a moment later.
func (a answer) summary(p *board.Panel, name string, values []float64) {
	if len(values) == 0 {
		return
	}
	factor := unitFactor(p.FieldConfig.Defaults.Unit)
	if showsCounts(p) {
		sum := 0.0
		for _, v := range values {
			sum += v
		}
		if sum > 0 {
			a.set(name, "sum", formatNumber(sum*factor))
		}
		return
	}
	a[name] = map[string]string{}
	switch {
	case !alwaysVaries(p.FieldConfig.Defaults.Unit):
		a.set(name, "last", formatNumber(values[len(values)-1]*factor))
	case len(values) >= enough:
		sum := 0.0
		for _, v := range values {
			sum += v
		}
		a.set(name, "mean", formatNumber(sum/float64(len(values))*factor))
	}
}

// showsCounts reports whether a panel's values are counts of each interval.
func showsCounts(p *board.Panel) bool {
	if p.Title == "Hosts by trouble" { // bars, but a number of hosts at each moment
		return false
	}
	return p.Type == "status-history" || p.FieldConfig.Defaults.Custom["drawStyle"] == "bars"
}
