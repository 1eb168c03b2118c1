package gen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"rdma_events/assets/grafana"
)

// help has the parts of a panel's description.
type help struct {
	shows string
	red   string // what red, or a line above the others, means
	do    string
	blind string // the events that the panel cannot show
}

// nothing is the start of help.red for a panel in which red has no meaning.
const nothing = "nothing"

func (h help) String() string {
	red := "**Red means** " + h.red + "\n\n"
	if after, ok := strings.CutPrefix(h.red, nothing); ok {
		red = "" // the rest explains how to read the panel
		if after = strings.TrimPrefix(after, "; "); after != "." {
			red = strings.ToUpper(after[:1]) + after[1:] + "\n\n"
		}
	}
	return fmt.Sprintf("%s\n\n%s**Do:** %s\n\n**Cannot see:** %s", h.shows, red, h.do, h.blind)
}

// panel has the properties that differ between the panels of a dashboard.
type panel struct {
	id      int // fixed, because alert rules and links refer to it
	title   string
	help    help
	width   int // in columns of 24
	height  int
	unit    string
	queries []query
	now     bool // shows the last minutes, independent of the dashboard's range
	detail  bool // Prometheus has its metrics only if telegraf.conf sets the constant detail

	recorded bool // in Prometheus, the values come from a recording rule that runs every five minutes

	fabric bool   // there is no data without fabric.peers_file
	needs  string // the option in the plugin's section applications that enables the data; "": none
}

// board places panels from left to right in rows of 24 columns.
type board struct {
	names   *names
	engine  Engine
	options *Options
	filter  string   // the condition of every query
	tags    []string // the filter compares them with the dashboard's variables
	panels  []grafana.Panel
	x, y    int
	bottom  int // of the panels so far
	tall    int // the height of the current line
	points  int // maxDataPoints of time series; 0: Grafana derives it from the panel's width
}

func newBoard(n *names, e Engine, o *Options, tags []string) *board {
	b := &board{names: n, engine: e, options: o, tags: tags, filter: "$timeFilter"}
	for _, tag := range tags {
		b.filter += fmt.Sprintf(` AND %[1]q =~ /^$%[1]s$/`, tag)
	}
	return b
}

func (b *board) row(id int, title string) {
	b.newLine()
	b.y = b.bottom
	b.add(grafana.Panel{
		ID: id, Type: "row", Title: title, GridPos: grafana.GridPos{H: 1, W: 24},
		Collapsed: new(bool), Panels: &[]grafana.Panel{},
	})
	b.newLine()
}

// collapsed adds a row that is closed at first, with the panels that add makes.
func (b *board) collapsed(id int, title string, add func()) {
	b.row(id, title)
	row := len(b.panels) - 1
	add()
	inside := slices.Clone(b.panels[row+1:])
	b.panels = b.panels[:row+1]
	closed := true
	b.panels[row].Collapsed, b.panels[row].Panels = &closed, &inside
	b.bottom = b.panels[row].GridPos.Y + b.panels[row].GridPos.H
}

func (b *board) newLine() {
	b.x, b.y, b.tall = 0, b.y+b.tall, 0
}

func (b *board) add(p grafana.Panel) {
	if b.x+p.GridPos.W > 24 {
		b.newLine()
	}
	p.GridPos.X, p.GridPos.Y = b.x, b.y
	b.x += p.GridPos.W
	b.tall = max(b.tall, p.GridPos.H)
	b.bottom = max(b.bottom, b.y+p.GridPos.H)
	b.panels = append(b.panels, p)
}

func (b *board) make(kind, format string, p panel, fields grafana.FieldDefaults, options map[string]any) grafana.Panel {
	made := grafana.Panel{
		ID: p.id, Type: kind, Title: p.title, Description: p.help.String(),
		GridPos:     grafana.GridPos{H: p.height, W: p.width},
		DataSource:  b.dataSource(),
		FieldConfig: &grafana.FieldConfig{Defaults: fields, Overrides: []grafana.Override{}},
		Options:     options,
	}
	made.FieldConfig.Defaults.Unit = b.unit(p.unit)
	if b.engine == Prometheus && p.detail {
		made.Description += "\n\n**Needs** `detail = true` in telegraf.conf."
	}
	if b.engine == Prometheus && p.recorded {
		made.Description += "\n\n**Delay:** a rule counts every five minutes, so the newest events may be missing."
	}
	if p.needs != "" {
		made.Description += "\n\n**Needs** `applications." + p.needs + " = true` in the plugin's configuration; without it there is no data."
		made.FieldConfig.Defaults.NoValue = cmp.Or(fields.NoValue, "None, or applications."+p.needs+" is off")
	}
	if p.fabric {
		made.Description += "\n\n**Needs** `fabric.peers_file` in the plugin's configuration; without it there is no data."
		made.FieldConfig.Defaults.NoValue = cmp.Or(fields.NoValue, "None, or fabric.peers_file is not set")
	}
	if p.now && b.engine == InfluxDB {
		made.TimeFrom = formatDuration(b.options.recent())
	}
	for _, q := range p.queries {
		if t, ok := b.target(q, kind, format); ok {
			t.RefID = string(rune('A' + len(made.Targets)))
			made.Targets = append(made.Targets, t)
		}
	}
	return made
}

// limitTimes limits the queries of panels with a time of their own (TimeFrom) to that time. Grafana ignores TimeFrom while the dashboard's
// range is absolute, and a table of the present would then show the last reports of hosts that have ended.
func limitTimes(panels []grafana.Panel) {
	for i := range panels {
		p := &panels[i]
		if p.Panels != nil {
			limitTimes(*p.Panels)
		}
		for j := range p.Targets {
			if p.TimeFrom != "" {
				p.Targets[j].Query = strings.ReplaceAll(p.Targets[j].Query, "$timeFilter", "time > ${__to}ms - "+p.TimeFrom+" AND time <= ${__to}ms")
			}
		}
	}
}

// unit converts the unit of a value in InfluxDB to the unit of that value in the engine.
func (b *board) unit(unit string) string {
	if b.engine == Prometheus {
		switch unit {
		case "ns":
			return "s"
		case "Gbits":
			return "bps"
		}
	}
	return unit
}

// level is a threshold: values of at least from have the colour.
type level struct {
	from  float64
	color string
}

func newThresholds(base string, levels ...level) *grafana.Thresholds {
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

// facts adds values side by side, without thresholds. The values may be text. labels names the labels that
// have the values in Prometheus.
func (b *board) facts(p panel, labels ...string) {
	fields := "/^(?!Time$).*$/"
	if b.engine == Prometheus {
		fields = "/^(" + strings.Join(labels, "|") + ")$/"
	}
	b.add(b.make("stat", "table", p, grafana.FieldDefaults{
		NoValue: "-", Thresholds: newThresholds("text"), Color: map[string]any{"mode": "thresholds"},
	}, map[string]any{
		"colorMode": "none", "graphMode": "none", "justifyMode": "auto", "orientation": "auto",
		"textMode": "value_and_name", "wideLayout": true, "showPercentChange": false, "percentChangeColorMode": "standard",
		"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}, "fields": fields, "values": false},
	}))
}

// shape is the style in which a time series is drawn.
type shape int

const (
	lines shape = iota
	bars
	points
)

// series adds lines, stacked bars or points over time.
func (b *board) series(p panel, s shape) {
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
	least := new(float64)
	if p.unit == "ns" { // a logarithmic scale has no 0
		least = nil
		custom["scaleDistribution"] = map[string]any{"type": "log", "log": 10}
	}
	made := b.make("timeseries", "time_series", p, grafana.FieldDefaults{
		Min: least, Custom: custom, Color: map[string]any{"mode": "palette-classic"},
	}, map[string]any{
		"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{"max"}},
		"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
	})
	made.FieldConfig.Overrides = append(made.FieldConfig.Overrides, colorOverrides(p.queries)...)
	made.Interval, made.MaxDataPoints = "10s", b.points
	if b.engine == Prometheus && (s != lines || slices.ContainsFunc(made.Targets, countsIncrease)) {
		made.Interval = "1m" // an increase needs some scrapes in each interval
	}
	if b.engine == Prometheus && p.recorded {
		made.Interval = "5m"
	}
	b.add(made)
}

func countsIncrease(t grafana.Target) bool { return strings.Contains(t.Expr, "$__rate_interval") }

// timeline adds states over time.
func (b *board) timeline(p panel, mapping grafana.Mapping) {
	made := b.make("state-timeline", "time_series", p, grafana.FieldDefaults{
		Mappings: []grafana.Mapping{mapping}, Thresholds: newThresholds("text"),
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

// history adds a row of cells for each series, from the least value in yellow to the greatest in red.
func (b *board) history(p panel) {
	made := b.make("status-history", "time_series", p, grafana.FieldDefaults{
		Thresholds: newThresholds("yellow", level{2, "orange"}, level{5, "red"}), Color: map[string]any{"mode": "thresholds"},
		Custom: map[string]any{"fillOpacity": 80, "lineWidth": 0},
	}, map[string]any{
		"rowHeight": 0.9, "colWidth": 0.9, "showValue": "never",
		"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": false, "calcs": []string{}},
		"tooltip": map[string]any{"mode": "single", "sort": "none"},
	})
	made.Interval, made.MaxDataPoints = "1m", b.points
	b.add(made)
}

// column is a column of a table, in the order in which it is shown.
type column struct {
	name  string // in a result of InfluxDB; none if InfluxDB has no such column
	prom  string // in a result of Prometheus; "" means name, none means that Prometheus has no such column
	title string // "" means name; host and device keep their names because links use them
	unit  string
	bad   bool // values above 0 are orange

	hidden bool // the query has to return it, but it is not shown
}

// widths has the widths of columns in pixels, by title. With Grafana's default of 150, only two columns would be on the first screen.
// A column without a width here gets the minimum width if the others fill the panel.
var widths = map[string]int{
	"Time": 160, "host": 88, "device": 60, "port": 46, "vector": 52, "instance": 78, "age": 82, "last report": 150, "time since last report": 150,
	"state": 66, "rate": 78, "best": 78, "flaps": 50, "reason": 112, "lost events": 92, "lost completions": 130, "errors": 60, "p99": 72,
	"call": 88, "last end": 88, "under way": 82, "stuck": 52, "driver": 90, "firmware": 104, "PCI": 110, "NUMA": 58, "worker": 84,
	"app": 110, "unit": 120, "object": 56, "event": 110, "number": 66, "pid": 76, "tid": 76, "proof": 66, "missing acks": 108, "count": 52,
	"unread errors": 112, "unread for": 90, "threads hang": 106, "hang for": 84, "QPs in error": 104, "errors in 30 min": 128,
	"processes": 92, "contexts": 82, "PDs": 50, "CQs": 50, "SRQs": 50, "queue pairs": 100, "in RTS": 56, "in error": 66,
	"attached": 82, "hooks": 64, "missing hooks": 116, "gaps": 50, "blind": 78, "lost records": 104, "map full": 78, "applications": 90,
	"peer_host": 88, "peer_device": 92, "peer_group": 90, "own_group": 90, "own group": 84, "anywhere": 78, "there": 54, "back": 54,
	"severity": 70, "problem": 200, "since": 120, "what": 240, "what to do": 380, "of": 100,
	"bad across": 88, "pairs across": 96, "bad within": 86, "observers": 82, "list": 140, "worst": 78,
	"trigger": 128, "cause": 128, "admin up": 82, "carrier": 64, "link": 128, "counters that moved": 320,
}

// none is the name of a column that an engine does not have.
const none = "-"

// columnsOf returns the columns that the engine has, with their names in it. Prometheus itself sets the label instance, so the plugin's
// instance has another name there.
func (b *board) columnsOf(all []column) []column {
	var its []column
	for _, c := range all {
		if b.engine == Prometheus {
			c.name, c.unit = cmp.Or(c.prom, c.name), b.unit(c.unit)
			if c.name == "instance" {
				c.name, c.title = "plugin_instance", "instance"
			}
		}
		if c.name != none {
			its = append(its, c)
		}
	}
	return its
}

// table adds a table with the rows of the panel's queries. links has the links of columns, by their names.
func (b *board) table(p panel, links map[string]grafana.DataLink, columns ...column) {
	made := b.make("table", "table", p, grafana.FieldDefaults{
		NoValue: "-", Thresholds: newThresholds("text"), Custom: map[string]any{"align": "auto", "filterable": false, "minWidth": 50},
	}, map[string]any{"showHeader": true, "frameIndex": 0, "cellHeight": "sm"})
	index, rename, exclude := map[string]any{}, map[string]any{}, map[string]any{"Time": true}
	logs := slices.ContainsFunc(made.Targets, func(t grafana.Target) bool { return t.MaxLines > 0 })
	if !logs { // Loki has the plugin's own names and units
		columns = b.columnsOf(columns)
	}
	for i, c := range columns {
		index[c.name] = i
		if c.hidden || c.name == "Time" {
			exclude[c.name] = c.hidden
		}
		if c.title != "" {
			rename[c.name] = c.title
		}
		made.FieldConfig.Overrides = append(made.FieldConfig.Overrides, c.overrides(links)...)
	}
	if logs {
		made.Transformations = lokiColumns(columns)
	}
	if len(made.Targets) > 1 {
		made.Transformations = append(made.Transformations, grafana.Transform{ID: "merge", Options: map[string]any{}})
	}
	made.Transformations = append(made.Transformations, grafana.Transform{ID: "organize", Options: map[string]any{
		"excludeByName": exclude, "indexByName": index, "renameByName": rename,
	}})
	b.add(made)
}

func (c column) overrides(links map[string]grafana.DataLink) []grafana.Override {
	var properties []grafana.Property
	if c.unit != "" {
		properties = append(properties, grafana.Property{ID: "unit", Value: c.unit})
	}
	if width, ok := widths[cmp.Or(c.title, c.name)]; ok {
		properties = append(properties, grafana.Property{ID: "custom.width", Value: width})
	}
	if c.bad {
		properties = append(properties,
			grafana.Property{ID: "thresholds", Value: newThresholds("text", level{1, "orange"})},
			grafana.Property{ID: "custom.cellOptions", Value: map[string]any{"type": "color-text"}})
	}
	if link, ok := links[c.name]; ok {
		properties = append(properties, grafana.Property{ID: "links", Value: []grafana.DataLink{link}})
	}
	if properties == nil {
		return nil
	}
	return []grafana.Override{{Matcher: grafana.Matcher{ID: "byName", Options: cmp.Or(c.title, c.name)}, Properties: properties}}
}

// sortedBy returns the transformation that sorts a table's rows by a column of the query's result. Grafana keeps the order of rows with
// equal values.
func sortedBy(column string, desc bool) grafana.Transform {
	return grafana.Transform{ID: "sortBy", Options: map[string]any{"sort": []map[string]any{{"field": column, "desc": desc}}}}
}
