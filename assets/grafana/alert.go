package grafana

import (
	"bytes"
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
)

// RuleFile is a file of alert rules for Grafana's file provisioning. Grafana
// replaces ${NAME} by the environment variable in all strings except those of a
// query's model.
type RuleFile struct {
	APIVersion int     `yaml:"apiVersion"`
	Groups     []Group `yaml:"groups"`
}

// Group is a list of rules that are evaluated together.
type Group struct {
	OrgID    int    `yaml:"orgId"`
	Name     string `yaml:"name"`
	Folder   string `yaml:"folder"`
	Interval string `yaml:"interval"` // between evaluations, as in 1m
	Rules    []Rule `yaml:"rules"`
}

// Rule is an alert rule.
type Rule struct {
	UID          string            `yaml:"uid"`
	Title        string            `yaml:"title"`
	Condition    string            `yaml:"condition"` // the RefID of the step whose result decides
	Data         []Query           `yaml:"data"`
	NoDataState  string            `yaml:"noDataState"`  // OK, NoData or Alerting
	ExecErrState string            `yaml:"execErrState"` // OK, Error or Alerting
	For          string            `yaml:"for"`          // how long the condition has to hold, as in 1m
	Annotations  map[string]string `yaml:"annotations"`
	Labels       map[string]string `yaml:"labels"`
	IsPaused     bool              `yaml:"isPaused"`
	DashboardUID string            `yaml:"dashboardUid,omitempty"` // of the panel that shows what the rule is about
	PanelID      int               `yaml:"panelId,omitempty"`
}

// Query is one step of a rule: InfluxQL, or an expression on the results of
// other steps.
type Query struct {
	RefID         string        `yaml:"refId"`
	Range         RelativeRange `yaml:"relativeTimeRange"`
	DataSourceUID string        `yaml:"datasourceUid"` // ExpressionUID, or a data source's
	Model         Model         `yaml:"model"`
}

// RelativeRange is a time range. From and To are seconds before the evaluation.
type RelativeRange struct {
	From int `yaml:"from"`
	To   int `yaml:"to"`
}

// At returns the time range for an evaluation at a given time.
func (r RelativeRange) At(at time.Time) (from, to time.Time) {
	return at.Add(-time.Duration(r.From) * time.Second), at.Add(-time.Duration(r.To) * time.Second)
}

// ExpressionUID is the DataSourceUID of a step that is an expression.
const ExpressionUID = "__expr__"

// Model describes the action of a step. An InfluxQL query has RawQuery and Query.
// An expression has a Type: reduce, math or threshold.
type Model struct {
	RefID         string      `yaml:"refId"`
	IntervalMs    int         `yaml:"intervalMs"`
	MaxDataPoints int         `yaml:"maxDataPoints"`
	Query         string      `yaml:"query,omitempty"`
	RawQuery      bool        `yaml:"rawQuery,omitempty"`
	ResultFormat  string      `yaml:"resultFormat,omitempty"`
	Type          string      `yaml:"type,omitempty"`
	Expression    string      `yaml:"expression,omitempty"`
	Reducer       string      `yaml:"reducer,omitempty"`
	Conditions    []Condition `yaml:"conditions,omitempty"`
}

// Condition is the condition of a threshold.
type Condition struct {
	Evaluator Evaluator `yaml:"evaluator"`
}

// Evaluator compares a value with a number. Type is gt or lt.
type Evaluator struct {
	Type   string    `yaml:"type"`
	Params []float64 `yaml:"params"`
}

// ParseRules parses a file of alert rules. A key that RuleFile lacks is an error.
func ParseRules(text []byte) (*RuleFile, error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	var f RuleFile
	if err := dec.Decode(&f); err != nil {
		return nil, fmt.Errorf("decode alert rules: %w", err)
	}
	return &f, nil
}

// Marshal returns the alert rules as a file for provisioning.
func (f *RuleFile) Marshal() ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(f); err != nil {
		return nil, fmt.Errorf("encode alert rules: %w", err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("encode alert rules: %w", err)
	}
	return b.Bytes(), nil
}
