package grafana

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"rdma_events/assets/grafana"
	"rdma_events/tests/influx"
)

// ErrTransformation is wrapped by the errors of Transform about a transformation that no table here uses.
var ErrTransformation = errors.New("not a transformation that tables here use")

// Frame is a table of values: numbers (json.Number or float64), texts, or nil.
type Frame struct {
	Columns []string
	Rows    [][]any
}

// Table returns an answer as Grafana's data source does in the format table: the time, the tags, the fields.
func Table(answer []influx.Series) Frame {
	if len(answer) == 0 {
		return Frame{}
	}
	tags := slices.Sorted(maps.Keys(answer[0].Tags))
	f := Frame{Columns: slices.Concat([]string{"Time"}, tags, answer[0].Columns[1:])}
	for _, s := range answer {
		for _, values := range s.Values {
			row := []any{values[0]}
			for _, tag := range tags {
				row = append(row, s.Tags[tag])
			}
			f.Rows = append(f.Rows, append(row, values[1:]...))
		}
	}
	return f
}

// Transform applies a panel's transformations, one after the other, to the answers of its queries. What is left is one
// table, empty if there are no rows.
func Transform(frames []Frame, all []grafana.Transform) (Frame, error) {
	for _, t := range all {
		if t.ID == "merge" {
			frames = []Frame{merge(frames)}
			continue
		}
		for i := range frames {
			if err := frames[i].transform(t); err != nil {
				return Frame{}, err
			}
		}
	}
	if len(frames) != 1 {
		return Frame{}, fmt.Errorf("%d answers are not one table: %w", len(frames), ErrTransformation)
	}
	return frames[0], nil
}

func (f *Frame) transform(t grafana.Transform) error {
	text, err := json.Marshal(t.Options)
	if err != nil {
		return fmt.Errorf("encode options of %s: %w", t.ID, err)
	}
	var o struct {
		ExcludeByName map[string]bool
		IndexByName   map[string]int
		RenameByName  map[string]string
		LimitField    int
		Sort          []struct {
			Field string
			Desc  bool
		}
		Fields map[string]struct {
			Operation    string
			Aggregations []string
		}
	}
	if err := json.Unmarshal(text, &o); err != nil {
		return fmt.Errorf("decode options of %s: %w", t.ID, err)
	}
	switch t.ID {
	case "organize":
		f.organize(o.ExcludeByName, o.IndexByName, o.RenameByName)
	case "limit":
		f.Rows = f.Rows[:min(len(f.Rows), o.LimitField)]
	case "sortBy":
		for _, by := range o.Sort {
			f.sort(by.Field, by.Desc)
		}
	case "groupBy":
		by, counted := []string{}, ""
		for name, field := range o.Fields {
			switch {
			case field.Operation == "groupby":
				by = append(by, name)
			case counted == "" && slices.Equal(field.Aggregations, []string{"count"}):
				counted = name
			default:
				return fmt.Errorf("%s of %s: %w", field.Aggregations, name, ErrTransformation)
			}
		}
		f.count(by, counted)
	default:
		return fmt.Errorf("%s: %w", t.ID, ErrTransformation)
	}
	return nil
}

// organize leaves columns out, sorts and renames them. Those without an index come first, as in Grafana.
func (f *Frame) organize(exclude map[string]bool, index map[string]int, rename map[string]string) {
	var columns []string
	for _, name := range f.Columns {
		if !exclude[name] {
			columns = append(columns, name)
		}
	}
	place := func(name string) int {
		if i, ok := index[name]; ok {
			return i
		}
		return -1
	}
	slices.SortStableFunc(columns, func(a, b string) int { return place(a) - place(b) })
	f.choose(columns)
	for i, name := range f.Columns {
		f.Columns[i] = cmp.Or(rename[name], name)
	}
}

// choose keeps columns, in this order.
func (f *Frame) choose(columns []string) {
	at := make([]int, len(columns))
	for i, name := range columns {
		at[i] = slices.Index(f.Columns, name)
	}
	for r, row := range f.Rows {
		kept := make([]any, len(at))
		for i, from := range at {
			kept[i] = row[from]
		}
		f.Rows[r] = kept
	}
	f.Columns = columns
}

func (f *Frame) sort(column string, desc bool) {
	i := slices.Index(f.Columns, column)
	if i < 0 {
		return
	}
	slices.SortStableFunc(f.Rows, func(a, b []any) int {
		order := compareValues(a[i], b[i])
		if desc {
			return -order
		}
		return order
	})
}

func compareValues(a, b any) int {
	x, okX := numberValue(a)
	y, okY := numberValue(b)
	if okX && okY {
		return cmp.Compare(x, y)
	}
	return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
}

func numberValue(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int:
		return float64(v), true
	case json.Number:
		x, err := v.Float64()
		return x, err == nil
	}
	return 0, false
}

// count makes one row of all that are equal in some columns, with their number.
func (f *Frame) count(by []string, counted string) {
	slices.SortFunc(by, func(a, b string) int { return slices.Index(f.Columns, a) - slices.Index(f.Columns, b) })
	if len(f.Rows) == 0 {
		return
	}
	f.choose(by)
	var rows [][]any
	for _, row := range f.Rows {
		i := slices.IndexFunc(rows, func(have []any) bool { return slices.Equal(have[:len(by)], row) })
		if i < 0 {
			rows = append(rows, append(slices.Clone(row), 0))
			i = len(rows) - 1
		}
		rows[i][len(by)] = rows[i][len(by)].(int) + 1
	}
	f.Columns, f.Rows = append(by, counted+" (count)"), rows
}

// merge joins rows of several frames into one row if they have equal values in all the columns that the frames share.
func merge(frames []Frame) Frame {
	var out Frame
	var shared []string
	for i, f := range frames {
		for _, name := range f.Columns {
			if !slices.Contains(out.Columns, name) {
				out.Columns = append(out.Columns, name)
			}
		}
		if i == 0 {
			shared = slices.Clone(f.Columns)
		}
		shared = slices.DeleteFunc(shared, func(name string) bool { return !slices.Contains(f.Columns, name) })
	}
	rows := map[string][]any{}
	for _, f := range frames {
		for _, row := range f.Rows {
			var key []any
			for _, name := range shared {
				key = append(key, row[slices.Index(f.Columns, name)])
			}
			k := fmt.Sprintf("%q", key)
			if rows[k] == nil {
				rows[k] = make([]any, len(out.Columns))
				out.Rows = append(out.Rows, rows[k])
			}
			for i, name := range f.Columns {
				rows[k][slices.Index(out.Columns, name)] = row[i]
			}
		}
	}
	return out
}
