package gen

import (
	"fmt"
	"strings"

	"rdma_events/assets/grafana"
)

// help has the parts of a panel's description.
type help struct {
	shows string
	red   string // the meaning of red, or of a raised line
	do    string
	blind string // the events that the panel cannot show
}

func (h help) String() string {
	return fmt.Sprintf("%s\n\n**Red means** %s\n\n**Do:** %s\n\n**Cannot see:** %s", h.shows, h.red, h.do, h.blind)
}

// query is a target before its placeholders are expanded.
type query struct {
	text  string
	alias string
}

// panel has the properties that differ between the panels of a dashboard.
type panel struct {
	title   string
	help    help
	width   int // in columns of 24
	height  int
	unit    string
	queries []query
	now     bool // shows the last minutes, independent of the dashboard's range
}

// board places panels from left to right in rows of 24 columns.
type board struct {
	names  *names
	filter string // the condition of every query
	panels []grafana.Panel
	x, y   int
	tall   int    // the height of the current row
	recent string // the time range of panels with now
	points int    // maxDataPoints of time series; 0: Grafana derives it from the panel's width
}

func (b *board) row(title string) {
	b.newLine()
	b.add(grafana.Panel{
		Type: "row", Title: title, GridPos: grafana.GridPos{H: 1, W: 24},
		Collapsed: new(bool), Panels: &[]grafana.Panel{},
	})
	b.newLine()
}

func (b *board) newLine() {
	b.x, b.y, b.tall = 0, b.y+b.tall, 0
}

func (b *board) add(p grafana.Panel) {
	if b.x+p.GridPos.W > 24 {
		b.newLine()
	}
	p.ID = len(b.panels) + 1
	p.GridPos.X, p.GridPos.Y = b.x, b.y
	b.x += p.GridPos.W
	b.tall = max(b.tall, p.GridPos.H)
	b.panels = append(b.panels, p)
}

func (b *board) make(kind, format string, p panel, fields grafana.FieldDefaults, options map[string]any) grafana.Panel {
	made := grafana.Panel{
		Type: kind, Title: p.title, Description: p.help.String(),
		GridPos:     grafana.GridPos{H: p.height, W: p.width},
		DataSource:  dataSource(),
		FieldConfig: &grafana.FieldConfig{Defaults: fields, Overrides: []grafana.Override{}},
		Options:     options,
	}
	made.FieldConfig.Defaults.Unit = p.unit
	if p.now {
		made.TimeFrom = b.recent
	}
	for i, q := range p.queries {
		made.Targets = append(made.Targets, grafana.Target{
			RefID: string(rune('A' + i)), DataSource: dataSource(), RawQuery: true, ResultFormat: format,
			Query: b.names.expand(q.text, `"$database"."$policy".`, b.filter, ""), Alias: q.alias,
		})
	}
	return made
}

// level is a threshold: values of at least from have the colour.
type level struct {
	from  float64
	color string
}

func thresholds(base string, levels ...level) *grafana.Thresholds {
	t := &grafana.Thresholds{Mode: "absolute", Steps: []grafana.Step{{Color: base}}}
	for _, l := range levels {
		t.Steps = append(t.Steps, grafana.Step{Color: l.color, Value: &l.from})
	}
	return t
}

// stat adds one number in colour. zero is the text that the panel shows if the
// query has no result.
func (b *board) stat(p panel, zero string, t *grafana.Thresholds) {
	b.add(b.make("stat", "time_series", p, grafana.FieldDefaults{
		NoValue: zero, Thresholds: t, Color: map[string]any{"mode": "thresholds"},
	}, map[string]any{
		"colorMode": "background", "graphMode": "none", "justifyMode": "auto", "orientation": "auto",
		"textMode": "auto", "wideLayout": true, "showPercentChange": false, "percentChangeColorMode": "standard",
		"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
	}))
}

// facts adds values side by side, without thresholds. The values may be text.
func (b *board) facts(p panel) {
	b.add(b.make("stat", "table", p, grafana.FieldDefaults{
		NoValue: "-", Thresholds: thresholds("text"), Color: map[string]any{"mode": "thresholds"},
	}, map[string]any{
		"colorMode": "none", "graphMode": "none", "justifyMode": "auto", "orientation": "auto",
		"textMode": "value_and_name", "wideLayout": true, "showPercentChange": false, "percentChangeColorMode": "standard",
		"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}, "fields": "/^(?!Time$).*$/", "values": false},
	}))
}

// shape is how a time series is drawn.
type shape int

const (
	lines shape = iota
	bars
	points
)

// series adds lines, stacked bars or points over time.
func (b *board) series(p panel, s shape, t *grafana.Thresholds) {
	custom := map[string]any{
		"drawStyle": "line", "lineInterpolation": "linear", "lineWidth": 1, "fillOpacity": 10, "showPoints": "auto",
		"pointSize": 5, "spanNulls": false, "axisPlacement": "auto",
		"stacking": map[string]any{"mode": "none", "group": "A"},
	}
	switch s {
	case bars:
		custom["drawStyle"], custom["fillOpacity"] = "bars", 80
		custom["stacking"] = map[string]any{"mode": "normal", "group": "A"}
	case points:
		custom["drawStyle"], custom["pointSize"], custom["showPoints"] = "points", 7, "always"
	}
	if t != nil {
		custom["thresholdsStyle"] = map[string]any{"mode": "dashed"}
	}
	made := b.make("timeseries", "time_series", p, grafana.FieldDefaults{
		Min: new(float64), Custom: custom, Thresholds: t, Color: map[string]any{"mode": "palette-classic"},
	}, map[string]any{
		"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{"max"}},
		"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
	})
	made.Interval, made.MaxDataPoints = "10s", b.points
	b.add(made)
}

// timeline adds states over time.
func (b *board) timeline(p panel, mapping grafana.Mapping) {
	made := b.make("state-timeline", "time_series", p, grafana.FieldDefaults{
		Mappings: []grafana.Mapping{mapping}, Thresholds: thresholds("text"),
		Color:  map[string]any{"mode": "thresholds"},
		Custom: map[string]any{"fillOpacity": 80, "lineWidth": 0},
	}, map[string]any{
		"alignValue": "left", "mergeValues": true, "rowHeight": 0.9, "showValue": "auto",
		"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}},
		"tooltip": map[string]any{"mode": "single", "sort": "none"},
	})
	made.Interval, made.MaxDataPoints = "10s", b.points
	b.add(made)
}

// column is a column of a table, in the order in which it is shown.
type column struct {
	name  string // in the query's result
	title string // "" means name; host and device keep their names because links use them
	unit  string
	red   bool // values above 0 are red
}

// table adds a table with the rows of the panel's only query. link is the address
// that the column device links to.
func (b *board) table(p panel, link string, columns ...column) {
	made := b.make("table", "table", p, grafana.FieldDefaults{
		NoValue: "-", Thresholds: thresholds("text"), Custom: map[string]any{"align": "auto", "filterable": false},
	}, map[string]any{"showHeader": true, "frameIndex": 0, "cellHeight": "sm"})
	index, rename := map[string]any{}, map[string]any{}
	for i, c := range columns {
		index[c.name] = i
		if c.title != "" {
			rename[c.name] = c.title
		}
		made.FieldConfig.Overrides = append(made.FieldConfig.Overrides, c.overrides(link)...)
	}
	made.Transformations = []grafana.Transform{{ID: "organize", Options: map[string]any{
		"excludeByName": map[string]any{"Time": !showsTime(columns)}, "indexByName": index, "renameByName": rename,
	}}}
	b.add(made)
}

func showsTime(columns []column) bool {
	for _, c := range columns {
		if c.name == "Time" {
			return true
		}
	}
	return false
}

func (c column) overrides(link string) []grafana.Override {
	var properties []grafana.Property
	if c.unit != "" {
		properties = append(properties, grafana.Property{ID: "unit", Value: c.unit})
	}
	if c.red {
		properties = append(properties,
			grafana.Property{ID: "thresholds", Value: thresholds("text", level{1, "red"})},
			grafana.Property{ID: "custom.cellOptions", Value: map[string]any{"type": "color-text"}})
	}
	if c.name == "device" && link != "" {
		properties = append(properties, grafana.Property{ID: "links", Value: []grafana.DataLink{{Title: "Device", URL: link}}})
	}
	if properties == nil {
		return nil
	}
	name := c.title
	if name == "" {
		name = c.name
	}
	return []grafana.Override{{Matcher: grafana.Matcher{ID: "byName", Options: name}, Properties: properties}}
}

// sum returns the query for a counter's increase, summed over all tags that are
// not in by. When the plugin restarts, its counters fall to 0; that decrease adds
// nothing.
func sum(field, measurement, conditions, by string) string {
	if by != "" {
		by = " GROUP BY " + by
	}
	return strings.NewReplacer("FIELD", field, "MEASUREMENT", measurement, "CONDITIONS", conditions).Replace(
		`SELECT sum("d") AS "FIELD" FROM (SELECT non_negative_difference("FIELD") AS "d" FROM {MEASUREMENT}
		WHERE {filter}CONDITIONS GROUP BY `+series[measurement]+`) WHERE $timeFilter`) + by
}

// grown returns the query for a counter's increase in each series in which it
// increased. Differences from point to point, as in sum, would take seconds for
// thousands of devices; this query takes a tenth of that time. If the plugin was
// restarted in the range, the result is the greater of the increases before and
// after the restart.
func grown(field, measurement string) string {
	return strings.NewReplacer("FIELD", field, "MEASUREMENT", measurement, "SERIES", series[measurement]).Replace(
		`SELECT max("n") AS "FIELD" FROM
		(SELECT max("FIELD") - first("FIELD") AS "n" FROM {MEASUREMENT} WHERE {filter} GROUP BY SERIES),
		(SELECT last("FIELD") - min("FIELD") AS "n" FROM {MEASUREMENT} WHERE {filter} GROUP BY SERIES)
		WHERE "n" > 0 AND $timeFilter GROUP BY SERIES`)
}

// These are the tags that distinguish series. instance is set on hosts with
// several plugins, and empty on others. Rules add the labels of places, for
// notifications.
const (
	byHost   = `{labels}"host", "instance"`
	byDevice = byHost + `, "device"`
	byPort   = byDevice + `, "port"`
	byProbe  = byPort + `, "vector", "method"`
)

// series has the tags that distinguish the series of each measurement.
var series = map[string]string{
	"rdma_async":     byPort,
	"rdma_port":      byPort,
	"rdma_cq_probe":  byProbe,
	"rdma_device":    byDevice,
	"rdma_host":      byHost,
	"rdma_collector": byHost,
}
