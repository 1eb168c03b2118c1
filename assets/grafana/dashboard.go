package grafana

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// SchemaVersion is the schema version of the dashboards, the last one of the
// classic JSON model.
const SchemaVersion = 42

// Dashboard is a dashboard in the classic JSON model.
type Dashboard struct {
	UID           string      `json:"uid"`
	Title         string      `json:"title"`
	Description   string      `json:"description"`
	Tags          []string    `json:"tags"`
	SchemaVersion int         `json:"schemaVersion"`
	Version       int         `json:"version"`
	Editable      bool        `json:"editable"`
	GraphTooltip  int         `json:"graphTooltip"` // 1: a shared crosshair
	Refresh       string      `json:"refresh"`
	Time          TimeRange   `json:"time"`
	TimePicker    struct{}    `json:"timepicker"`
	Timezone      string      `json:"timezone"`
	Annotations   Annotations `json:"annotations"`
	Templating    Templating  `json:"templating"`
	Links         []Link      `json:"links"`
	Panels        []Panel     `json:"panels"`
}

// TimeRange is the time range of a dashboard when it is opened, as in now-1h.
type TimeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// DataSource refers to a data source; its UID may be a variable.
type DataSource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// Annotations are marks on the time axis of every panel.
type Annotations struct {
	List []Annotation `json:"list"`
}

// Annotation is one kind of mark.
type Annotation struct {
	DataSource DataSource `json:"datasource"`
	Enable     bool       `json:"enable"`
	IconColor  string     `json:"iconColor"`
	Name       string     `json:"name"`
	// Of an InfluxDB:
	Target *AnnotationTarget `json:"target,omitempty"`
	// Of a Prometheus: each point of the answer is a mark.
	Expr        string `json:"expr,omitempty"`
	Step        string `json:"step,omitempty"`
	TitleFormat string `json:"titleFormat,omitempty"`
	TagKeys     string `json:"tagKeys,omitempty"`
	// Of a Loki, besides: the text of a mark.
	TextFormat string `json:"textFormat,omitempty"`
}

// AnnotationTarget is the query of an annotation, with the columns for its text
// and its tags.
type AnnotationTarget struct {
	RefID           string `json:"refId"`
	Query           string `json:"query"`
	RawQuery        bool   `json:"rawQuery"`
	FromAnnotations bool   `json:"fromAnnotations"`
	TextEditor      bool   `json:"textEditor"`
	TextColumn      string `json:"textColumn"`
	TagsColumn      string `json:"tagsColumn"` // names, separated by commas
}

// Templating has a dashboard's variables, in the order in which Grafana fills them.
type Templating struct {
	List []Variable `json:"list"`
}

// Variable is a selection at the top of a dashboard. Its Query is InfluxQL or a
// function of Grafana for PromQL, or for the type datasource the name of the data source plugin.
type Variable struct {
	Name       string      `json:"name"`
	Label      string      `json:"label"`
	Type       string      `json:"type"` // datasource or query
	DataSource *DataSource `json:"datasource,omitempty"`
	Query      string      `json:"query"`
	Regex      string      `json:"regex,omitempty"`
	Refresh    int         `json:"refresh"` // 1: when the dashboard loads, 2: when the time changes
	Sort       int         `json:"sort,omitempty"`
	Multi      bool        `json:"multi,omitempty"`
	IncludeAll bool        `json:"includeAll,omitempty"`
	AllValue   string      `json:"allValue,omitempty"`
	Current    *Option     `json:"current,omitempty"`
}

// Option is a variable's value and its displayed text.
type Option struct {
	Text  string `json:"text"`
	Value string `json:"value"`
}

// Link is a link to another dashboard.
type Link struct {
	AsDropdown  bool     `json:"asDropdown"`
	Icon        string   `json:"icon"`
	IncludeVars bool     `json:"includeVars"`
	KeepTime    bool     `json:"keepTime"`
	Tags        []string `json:"tags"`
	TargetBlank bool     `json:"targetBlank"`
	Title       string   `json:"title"`
	Tooltip     string   `json:"tooltip"`
	Type        string   `json:"type"`
	URL         string   `json:"url"`
}

// Panel is a panel, or a heading if its type is row.
type Panel struct {
	ID               int            `json:"id"`
	Type             string         `json:"type"`
	Title            string         `json:"title"`
	Description      string         `json:"description,omitempty"`
	GridPos          GridPos        `json:"gridPos"`
	DataSource       *DataSource    `json:"datasource,omitempty"`
	Targets          []Target       `json:"targets,omitempty"`
	FieldConfig      *FieldConfig   `json:"fieldConfig,omitempty"`
	Options          map[string]any `json:"options,omitempty"`
	Interval         string         `json:"interval,omitempty"` // the minimum of $__interval
	MaxDataPoints    int            `json:"maxDataPoints,omitempty"`
	TimeFrom         string         `json:"timeFrom,omitempty"` // the panel's own range, up to now
	HideTimeOverride bool           `json:"hideTimeOverride,omitempty"`
	Transformations  []Transform    `json:"transformations,omitempty"`
	Collapsed        *bool          `json:"collapsed,omitempty"` // rows only
	Panels           *[]Panel       `json:"panels,omitempty"`    // rows only
}

// GridPos is the position and the size of a panel, in a grid of 24 columns.
type GridPos struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

// Target is a query of a panel to Grafana's data source of an InfluxDB or of a Prometheus.
type Target struct {
	RefID      string      `json:"refId"`
	DataSource *DataSource `json:"datasource,omitempty"`

	// Of an InfluxDB:
	Query        string `json:"query,omitempty"`
	RawQuery     bool   `json:"rawQuery,omitempty"`
	ResultFormat string `json:"resultFormat,omitempty"` // time_series or table
	Alias        string `json:"alias,omitempty"`

	// Of a Prometheus:
	Expr         string `json:"expr,omitempty"`
	Instant      bool   `json:"instant,omitempty"`
	Range        bool   `json:"range,omitempty"`
	Format       string `json:"format,omitempty"` // time_series or table
	LegendFormat string `json:"legendFormat,omitempty"`

	// Of a Loki, besides Expr:
	QueryType string `json:"queryType,omitempty"` // range
	MaxLines  int    `json:"maxLines,omitempty"`
}

// Transform changes a panel's data before it is drawn.
type Transform struct {
	ID      string         `json:"id"`
	Options map[string]any `json:"options"`
}

// FieldConfig configures how values are displayed.
type FieldConfig struct {
	Defaults  FieldDefaults `json:"defaults"`
	Overrides []Override    `json:"overrides"`
}

// FieldDefaults configures how values are displayed that no Override matches.
type FieldDefaults struct {
	Unit       string         `json:"unit,omitempty"`
	Decimals   *int           `json:"decimals,omitempty"`
	Min        *float64       `json:"min,omitempty"`
	NoValue    string         `json:"noValue,omitempty"`
	Color      map[string]any `json:"color,omitempty"`
	Thresholds *Thresholds    `json:"thresholds,omitempty"`
	Mappings   []Mapping      `json:"mappings,omitempty"`
	Links      []DataLink     `json:"links,omitempty"`
	Custom     map[string]any `json:"custom,omitempty"`
}

// Thresholds assign colours to ranges of values.
type Thresholds struct {
	Mode  string `json:"mode"`
	Steps []Step `json:"steps"`
}

// Step is the colour of all values from Value on, up to the next step. The first
// step has no Value.
type Step struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}

// Mapping maps values to texts and colours.
type Mapping struct {
	Type    string            `json:"type"`
	Options map[string]Mapped `json:"options"`
}

// Mapped is the text and colour of a value.
type Mapped struct {
	Text  string `json:"text"`
	Color string `json:"color"`
	Index int    `json:"index"`
}

// DataLink is a link from a value.
type DataLink struct {
	Title string `json:"title"`
	URL   string `json:"url"`
}

// Override changes how the matching fields are displayed.
type Override struct {
	Matcher    Matcher    `json:"matcher"`
	Properties []Property `json:"properties"`
}

// Matcher selects fields, as in byName.
type Matcher struct {
	ID      string `json:"id"`
	Options string `json:"options"`
}

// Property is one display setting of fields.
type Property struct {
	ID    string `json:"id"`
	Value any    `json:"value"`
}

// All returns the panels of a dashboard, including the panels of closed rows.
func (d *Dashboard) All() []Panel {
	var all []Panel
	for _, p := range d.Panels {
		all = append(all, p)
		if p.Panels != nil {
			all = append(all, *p.Panels...)
		}
	}
	return all
}

// ParseDashboard parses a dashboard. A key that Dashboard lacks is an error.
func ParseDashboard(text []byte) (*Dashboard, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var d Dashboard
	if err := dec.Decode(&d); err != nil {
		return nil, fmt.Errorf("decode dashboard: %w", err)
	}
	return &d, nil
}

// Marshal returns the dashboard as JSON for Grafana's import.
func (d *Dashboard) Marshal() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // queries contain < and >, and must stay readable
	enc.SetIndent("", "  ")
	if err := enc.Encode(d); err != nil {
		return nil, fmt.Errorf("encode dashboard %s: %w", d.UID, err)
	}
	return b.Bytes(), nil
}
