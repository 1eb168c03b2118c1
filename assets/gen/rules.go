package gen

import (
	"fmt"
	"maps"
	"time"

	"rdma_events/assets/grafana"
)

// rule is an alert rule with its documentation.
type rule struct {
	id       string // of the UID, and the heading in docs/alerts.md
	title    string
	severity string // critical: wakes the person on duty; warning: can wait for the day
	panel    panelRef
	summary  string            // a template
	labels   map[string]string // of Grafana's alerts, templates; they replace those of the query
	steps    []step
	promql   string        // the same question of the names of assets/prometheus/telegraf.conf
	promHold time.Duration // how long Prometheus holds it, where the wait of the other is in its query; 0: hold
	when     string        // the condition, an expression of the steps' results
	above    float64
	hold     time.Duration // how long the condition has to hold
	noData   string
	slow     bool // evaluated every five minutes instead of every minute

	fires  string // documentation: when it fires
	quiet  string // when it intentionally does not fire
	clears string
	do     []string
	blind  string
}

// panelRef names the panel that shows what a rule is about.
type panelRef struct {
	dashboard string
	id        int
}

// step is a query that returns one number per series. from and to are the begin and
// the end of its time range, as durations before the evaluation.
type step struct {
	query    string
	from, to time.Duration
}

func ruleFile(n *names, o *Options) ([]byte, error) {
	group := func(name, interval string) grafana.Group {
		return grafana.Group{OrgID: 1, Name: name, Folder: "RDMA", Interval: interval}
	}
	fast, slow := group("rdma_events", "1m"), group("rdma_events_slow", "5m")
	for _, r := range o.rules() {
		if len(r.steps) == 0 {
			continue // for Prometheus alone
		}
		g := &fast
		if r.slow {
			g = &slow
		}
		g.Rules = append(g.Rules, r.grafana(n, o))
	}
	f := grafana.RuleFile{APIVersion: 1, Groups: []grafana.Group{fast, slow}}
	text, err := f.Marshal()
	return append([]byte(ruleFileHead), text...), err
}

const ruleFileHead = `# Alert rules for Grafana's file provisioning, made by rdma-events assets; do not edit.
# docs/alerts.md says what each means, and how to install them.
`

func (r *rule) grafana(n *names, o *Options) grafana.Rule {
	labels := map[string]string{"severity": r.severity, "component": "rdma"}
	maps.Copy(labels, r.labels)
	return grafana.Rule{
		UID: "rdma-" + r.id, Title: r.title, Condition: conditionRef, Data: r.data(n, o),
		NoDataState: r.noData, ExecErrState: "Error", For: short(r.hold),
		DashboardUID: r.panel.dashboard, PanelID: r.panel.id,
		Labels: labels, Annotations: r.annotations(o, r.summary),
	}
}

// annotations are the texts of an alert. Grafana replaces no variables in them (since 9.1), so that there is a link to
// the rule's chapter only if its address is known.
func (r *rule) annotations(o *Options, summary string) map[string]string {
	all := map[string]string{"summary": summary, "description": r.fires, "do": r.do[0]}
	if page := o.runbook(r.id); page != "" {
		all["runbook_url"] = page
	}
	return all
}

// These are the references of a rule's expressions. Its queries are A, B, ...
const (
	valueRef     = "V"
	conditionRef = "T"
)

// data returns the steps of a rule: the queries, a reduction of each, the
// expression of the reductions, and the threshold.
func (r *rule) data(n *names, o *Options) []grafana.Query {
	var queries, reductions []grafana.Query
	for i, s := range r.steps {
		ref := string(rune('A' + i))
		rng := grafana.RelativeRange{From: int(s.from.Seconds()), To: int(s.to.Seconds())}
		queries = append(queries, grafana.Query{
			RefID: ref, Range: rng, DataSourceUID: o.source(),
			Model: model(ref, grafana.Model{RawQuery: true, ResultFormat: "time_series", Query: n.expand(s.query, policyOf(o.Place), "$timeFilter", o.inInfluxQL())}),
		})
		reductions = append(reductions, expression("R"+ref, grafana.Model{Type: "reduce", Expression: ref, Reducer: "last"}))
	}
	value := "RA"
	data := append(queries, reductions...)
	if r.when != "" {
		value = valueRef
		data = append(data, expression(valueRef, grafana.Model{Type: "math", Expression: r.when}))
	}
	return append(data, expression(conditionRef, grafana.Model{
		Type: "threshold", Expression: value,
		Conditions: []grafana.Condition{{Evaluator: grafana.Evaluator{Type: "gt", Params: []float64{r.above}}}},
	}))
}

func expression(ref string, m grafana.Model) grafana.Query {
	return grafana.Query{RefID: ref, DataSourceUID: grafana.ExpressionUID, Model: model(ref, m)}
}

func model(ref string, m grafana.Model) grafana.Model {
	m.RefID, m.IntervalMs, m.MaxDataPoints = ref, 1000, 43200
	return m
}

// short returns a duration in the notation of Prometheus.
func short(d time.Duration) string {
	switch {
	case d == 0:
		return "0s"
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}
