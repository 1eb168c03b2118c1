package grafana

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// SchemaVersion is that of the dashboards: the last one of the classic JSON.
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

// TimeRange is what a dashboard shows when it is opened, as in now-1h.
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
	DataSource DataSource       `json:"datasource"`
	Enable     bool             `json:"enable"`
	IconColor  string           `json:"iconColor"`
	Name       string           `json:"name"`
	Target     AnnotationTarget `json:"target"`
}

// AnnotationTarget is the query of an annotation and which of its columns say
// what.
type AnnotationTarget struct {
	RefID           string `json:"refId"`
	Query           string `json:"query"`
	RawQuery        bool   `json:"rawQuery"`
	FromAnnotations bool   `json:"fromAnnotations"`
	TextEditor      bool   `json:"textEditor"`
	TextColumn      string `json:"textColumn"`
	TagsColumn      string `json:"tagsColumn"` // names with commas between
}

// Templating holds a dashboard's variables in the order in which they are
// filled.
type Templating struct {
	List []Variable `json:"list"`
}

// Variable is a choice at the top of a dashboard. Its Query is InfluxQL, or for
// the type datasource the plugin's name.
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

// Option is a variable's value and how it is shown.
type Option struct {
	Text  string `json:"text"`
	Value string `json:"value"`
}

// Link leads to another dashboard.
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

// Panel is a panel, or with type row a heading.
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
	Interval         string         `json:"interval,omitempty"` // the least $__interval
	MaxDataPoints    int            `json:"maxDataPoints,omitempty"`
	TimeFrom         string         `json:"timeFrom,omitempty"` // another range than the dashboard's, up to now
	HideTimeOverride bool           `json:"hideTimeOverride,omitempty"`
	Transformations  []Transform    `json:"transformations,omitempty"`
	Collapsed        *bool          `json:"collapsed,omitempty"` // rows only
	Panels           *[]Panel       `json:"panels,omitempty"`    // rows only
}

// GridPos is where a panel is, in a grid 24 wide.
type GridPos struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

// Target is one query of a panel, of Grafana's InfluxDB data source.
type Target struct {
	RefID        string      `json:"refId"`
	DataSource   *DataSource `json:"datasource,omitempty"`
	Query        string      `json:"query"`
	RawQuery     bool        `json:"rawQuery"`
	ResultFormat string      `json:"resultFormat"` // time_series or table
	Alias        string      `json:"alias,omitempty"`
}

// Transform changes a panel's data before it is drawn.
type Transform struct {
	ID      string         `json:"id"`
	Options map[string]any `json:"options"`
}

// FieldConfig says how values look.
type FieldConfig struct {
	Defaults  FieldDefaults `json:"defaults"`
	Overrides []Override    `json:"overrides"`
}

// FieldDefaults is how values look that no Override matches.
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

// Thresholds are steps of colour.
type Thresholds struct {
	Mode  string `json:"mode"`
	Steps []Step `json:"steps"`
}

// Step is a colour from a value on; the first has no value.
type Step struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}

// Mapping gives texts and colours to values.
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

// DataLink leads on from a value.
type DataLink struct {
	Title string `json:"title"`
	URL   string `json:"url"`
}

// Override changes how the fields look that it matches.
type Override struct {
	Matcher    Matcher    `json:"matcher"`
	Properties []Property `json:"properties"`
}

// Matcher says which fields, as in byName.
type Matcher struct {
	ID      string `json:"id"`
	Options string `json:"options"`
}

// Property is one thing about how fields look.
type Property struct {
	ID    string `json:"id"`
	Value any    `json:"value"`
}

// ParseDashboard reads a dashboard. Keys that Dashboard does not know are
// errors.
func ParseDashboard(text []byte) (*Dashboard, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var d Dashboard
	if err := dec.Decode(&d); err != nil {
		return nil, fmt.Errorf("decode dashboard: %w", err)
	}
	return &d, nil
}

// Marshal writes a dashboard as it is imported.
func (d *Dashboard) Marshal() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // queries have < and > in them, and people read them
	enc.SetIndent("", "  ")
	if err := enc.Encode(d); err != nil {
		return nil, fmt.Errorf("encode dashboard %s: %w", d.UID, err)
	}
	return b.Bytes(), nil
}
