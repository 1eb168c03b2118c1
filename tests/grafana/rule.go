package grafana

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/prometheus/common/model"

	"rdma_events/assets/grafana"
	"rdma_events/tests/influx"
)

// Source is where rules and dashboards find their data.
type Source struct {
	Server   *influx.Server
	Database string
}

// Query runs InfluxQL.
func (s Source) Query(ctx context.Context, query string) ([]influx.Series, error) {
	return s.Server.Query(ctx, s.Database, query)
}

// RuleRequests returns a rule's queries as Grafana sends them at a moment.
func RuleRequests(rule *grafana.Rule, at time.Time) []Request {
	var all []Request
	for _, q := range rule.Data {
		if q.DataSourceUID != grafana.ExpressionUID {
			var r Range
			r.From, r.To = q.Range.At(at)
			all = append(all, Request{Title: rule.Title, RefID: q.RefID, Query: Macros(q.Model.Query, r, time.Second)})
		}
	}
	return all
}

// Evaluate runs a rule's queries and expressions at a moment and returns the
// result of its condition for each series. An empty result is "no data".
func Evaluate(ctx context.Context, src Source, rule *grafana.Rule, at time.Time) ([]Number, error) {
	series := map[string][]influx.Series{}
	for _, q := range RuleRequests(rule, at) {
		var err error
		if series[q.RefID], err = src.Query(ctx, q.Query); err != nil {
			return nil, fmt.Errorf("evaluate %s of %s: %w", q.RefID, rule.UID, err)
		}
	}
	numbers := map[string][]Number{}
	for _, q := range rule.Data {
		if q.DataSourceUID != grafana.ExpressionUID {
			continue
		}
		var err error
		if numbers[q.RefID], err = evaluateExpression(&q.Model, series, numbers); err != nil {
			return nil, fmt.Errorf("evaluate %s of %s: %w", q.RefID, rule.UID, err)
		}
	}
	return numbers[rule.Condition], nil
}

func evaluateExpression(m *grafana.Model, series map[string][]influx.Series, numbers map[string][]Number) ([]Number, error) {
	switch m.Type {
	case "reduce":
		return reduceSeries(series[m.Expression], m.Reducer)
	case "math":
		return evaluateMath(m.Expression, numbers)
	case "threshold":
		return evaluateThreshold(numbers[m.Expression], m.Conditions)
	}
	return nil, fmt.Errorf("type %q: %w", m.Type, errExpression)
}

// State is the state of one series of a rule.
type State string

// The states.
const (
	Normal  State = "Normal"
	Pending State = "Pending" // the condition holds, but not yet for long enough
	Firing  State = "Alerting"
)

// missingEvaluations is the number of evaluations without a series after which
// that series is over (missing_series_evals_to_resolve).
const missingEvaluations = 2

// Watcher evaluates a rule repeatedly, as Grafana's scheduler does, and keeps the
// states of its series (ngalert/state).
type Watcher struct {
	rule     *grafana.Rule
	hold     time.Duration
	interval time.Duration
	series   map[string]*instance
}

type instance struct {
	labels map[string]string
	state  State
	since  time.Time // of Pending or Firing
	seen   time.Time
}

// NewWatcher returns a Watcher of a rule in a group.
func NewWatcher(rule *grafana.Rule, group *grafana.Group) (*Watcher, error) {
	hold, err := model.ParseDuration(rule.For)
	if err != nil {
		return nil, fmt.Errorf("for of %s: %w", rule.UID, err)
	}
	interval, err := model.ParseDuration(group.Interval)
	if err != nil {
		return nil, fmt.Errorf("interval of %s: %w", group.Name, err)
	}
	return &Watcher{rule: rule, hold: time.Duration(hold), interval: time.Duration(interval), series: map[string]*instance{}}, nil
}

// Interval returns the time between two evaluations.
func (w *Watcher) Interval() time.Duration { return w.interval }

// Evaluate evaluates the rule at a moment and updates the states of its series.
func (w *Watcher) Evaluate(ctx context.Context, src Source, at time.Time) error {
	numbers, err := Evaluate(ctx, src, w.rule, at)
	if err != nil {
		return err
	}
	if len(numbers) == 0 && w.rule.NoDataState == "Alerting" {
		// Grafana sets all series of the rule, or one that has no labels of its own.
		numbers = []Number{{Labels: map[string]string{"datasource": w.rule.Data[0].DataSourceUID}, Value: 1}}
	}
	for _, n := range numbers {
		if n.Labels, err = alertLabels(w.rule, n.Labels); err != nil {
			return err
		}
		w.update(n, at)
	}
	for k, i := range w.series {
		if at.Sub(i.seen) >= missingEvaluations*w.interval {
			delete(w.series, k)
		}
	}
	return nil
}

// alertLabels returns the labels of an alert: those of the query, and in their place those that the rule makes of them. Several
// series of the query may become one alert (ngalert/state). The labels that are the same for all alerts of a rule are left out.
func alertLabels(rule *grafana.Rule, labels map[string]string) (map[string]string, error) {
	all := maps.Clone(labels)
	for name, text := range rule.Labels {
		if (name == "severity" || name == "component") && !strings.Contains(text, "{{") {
			continue
		}
		tmpl, err := template.New(name).Parse(text)
		if err != nil {
			return nil, fmt.Errorf("parse label %s of %s: %w", name, rule.UID, err)
		}
		var b strings.Builder
		if err := tmpl.Execute(&b, struct{ Labels map[string]string }{labels}); err != nil {
			return nil, fmt.Errorf("fill in label %s of %s: %w", name, rule.UID, err)
		}
		all[name] = b.String()
	}
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	return all, nil
}

func (w *Watcher) update(n Number, at time.Time) {
	k := labelsKey(n.Labels)
	i := w.series[k]
	if i == nil {
		i = &instance{labels: n.Labels, state: Normal}
		w.series[k] = i
	}
	i.seen = at
	switch {
	case n.Value != 1:
		i.state = Normal
	case i.state == Normal:
		i.state, i.since = Pending, at
		fallthrough
	case i.state == Pending:
		if at.Sub(i.since) >= w.hold {
			i.state, i.since = Firing, at
		}
	}
}

// In returns the labels of the series in a state.
func (w *Watcher) In(state State) []map[string]string {
	var all []map[string]string
	for _, i := range w.series {
		if i.state == state {
			all = append(all, i.labels)
		}
	}
	return all
}

// Alert is a series of a rule that fires or is about to.
type Alert struct {
	Rule   *grafana.Rule
	Labels map[string]string
	State  State
	Since  time.Time // of the state
}

// Alerts evaluates all rules over a time, as Grafana's scheduler does, and returns those that fire or are about to at its
// end: first those that fire, the newest first.
func Alerts(ctx context.Context, src Source, file *grafana.RuleFile, r Range) ([]Alert, error) {
	var all []Alert
	for _, g := range file.Groups {
		for i := range g.Rules {
			w, err := NewWatcher(&g.Rules[i], &g)
			if err != nil {
				return nil, err
			}
			for at := r.From; !at.After(r.To); at = at.Add(w.interval) {
				if err := w.Evaluate(ctx, src, at); err != nil {
					return nil, err
				}
			}
			for _, i := range w.series {
				if i.state != Normal {
					all = append(all, Alert{Rule: w.rule, Labels: i.labels, State: i.state, Since: i.since})
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b Alert) int {
		return cmp.Or(cmp.Compare(a.State, b.State), b.Since.Compare(a.Since), cmp.Compare(a.Rule.UID, b.Rule.UID),
			cmp.Compare(labelsKey(a.Labels), labelsKey(b.Labels)))
	})
	return all, nil
}
