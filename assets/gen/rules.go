package gen

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"time"

	"rdma_events/assets/grafana"
	"rdma_events/internal/agent/alerts"
)

// rule is an alert with its queries.
type rule struct {
	alerts.Alert
	queries
}

// queries ask each engine for what fulfils the condition of an alert.
type queries struct {
	steps    []step            // of InfluxQL; none: the rule is for Prometheus alone
	when     string            // an expression of the steps' results
	above    float64           // the result is above this
	noData   string            // the state in Grafana if there is no data; "": OK, since another rule fires then
	promql   string            // the same of the names of assets/prometheus/telegraf.conf
	promHold time.Duration     // how long Prometheus holds it, where the wait of the other is in its query; 0: as the alert
	labels   map[string]string // of Grafana's alerts, templates; they replace those of the query
}

// step is a query that returns one number per series. from and to are the begin and
// the end of its time range, as durations before the evaluation.
type step struct {
	query    string
	from, to time.Duration
}

// rules returns the table of alerts, with queries for both engines.
func (o *Options) rules() []rule {
	own := o.ownQueries()
	words := o.words()
	table := alerts.Table()
	rules := make([]rule, 0, len(table))
	for _, a := range table {
		a.Summary, a.Fires = words.Replace(a.Summary), words.Replace(a.Fires)
		if a.HoldsAStaleValue {
			a.Hold = max(a.Hold, o.window())
		}
		r := rule{Alert: a, queries: own[a.ID]}
		if a.Measurement != "" {
			if r.steps == nil {
				r.steps, r.above = o.influxCondition(&a)
			}
			r.promql = cmp.Or(r.promql, promCondition(&a))
		}
		rules = append(rules, r)
	}
	return rules
}

// ownQueries are those of alerts that compare hosts, or a series with its past, and of those that an engine has to ask in another way.
func (o *Options) ownQueries() map[string]queries {
	own := map[string]queries{
		"ports-down-together": o.portsDownTogether(), "sm-unstable": o.smUnstable(), "wake-slow": slowWakeUps(), "app-errors": appErrorQueries(),
		"plugin-silent": o.silentPlugins(), "no-reports": noReports(),
	}
	maps.Copy(own, o.fabricQueries())
	return own
}

// words replaces what in the texts of alerts depends on the options.
func (o *Options) words() *strings.Replacer {
	ofSite, ofTheSite, atPlace, onePlace := "", "", "", "the fleet, since no labels say where a host is,"
	if len(o.Labels) > 0 {
		ofSite = fmt.Sprintf("{{ with .Labels.%[1]s }} (%[1]s {{ . }}){{ end }}", o.Labels[0])
		ofTheSite = fmt.Sprintf("{{ with .Labels.%[1]s }} of %[1]s {{ . }}{{ end }}", o.Labels[0])
		onePlace = "one place (" + o.inPromQL() + ")"
	}
	for _, label := range o.Labels {
		atPlace += fmt.Sprintf("{{ with .Labels.%[1]s }}, %[1]s {{ . }}{{ end }}", label)
	}
	silentFor := fmt.Sprintf("%d to %d minutes", int(o.recent().Minutes()), int(2*o.recent().Minutes()))
	return strings.NewReplacer("{of_site}", ofSite, "{of_the_site}", ofTheSite, "{at_place}", atPlace, "{one_place}", onePlace, "{silent_for}", silentFor)
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
		if r.Slow {
			g = &slow
		}
		g.Rules = append(g.Rules, r.grafana(n, o))
	}
	f := grafana.RuleFile{APIVersion: 1, Groups: []grafana.Group{fast, slow}}
	text, err := f.Marshal()
	return append([]byte(ruleFileHead), text...), err
}

const ruleFileHead = `# Alert rules for Grafana's file provisioning, made by rdma-events assets; do not edit.
# docs/reference/alerts.md says what each means, and how to install them.
`

func (r *rule) grafana(n *names, o *Options) grafana.Rule {
	labels := map[string]string{"severity": r.severity(".Labels"), "component": "rdma"}
	maps.Copy(labels, r.labels)
	return grafana.Rule{
		UID: "rdma-" + r.ID, Title: r.Title, Condition: conditionRef, Data: r.data(n, o),
		NoDataState: cmp.Or(r.noData, "OK"), ExecErrState: "Error", For: formatDuration(r.Hold),
		DashboardUID: r.Panel.Dashboard, PanelID: r.Panel.ID,
		Labels: labels, Annotations: r.annotations(o, r.Summary),
	}
}

// severity returns the severity, or a template for it if problems of ports for management are mere warnings.
func (r *rule) severity(labels string) string {
	if r.Severity != alerts.Critical || !strings.HasSuffix(series[r.Measurement], byRole) {
		return string(r.Severity)
	}
	return fmt.Sprintf(`{{ if eq %s.role "management" }}%s{{ else }}%s{{ end }}`, labels, alerts.Warning, alerts.Critical)
}

// annotations are the texts of an alert. Grafana replaces no variables in them (since 9.1), so that there is a link to
// the rule's chapter only if its address is known.
func (r *rule) annotations(o *Options, summary string) map[string]string {
	all := map[string]string{"summary": summary, "description": r.Fires, "do": r.FirstSteps[0]}
	if page := o.runbook(r.ID); page != "" {
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
			Model: newModel(ref, grafana.Model{RawQuery: true, ResultFormat: "time_series", Query: n.expand(s.query, policyOf(o.Place), "$timeFilter", o.inInfluxQL())}),
		})
		reductions = append(reductions, newExpression("R"+ref, grafana.Model{Type: "reduce", Expression: ref, Reducer: "last"}))
	}
	value := "RA"
	data := append(queries, reductions...)
	if r.when != "" {
		value = valueRef
		data = append(data, newExpression(valueRef, grafana.Model{Type: "math", Expression: r.when}))
	}
	return append(data, newExpression(conditionRef, grafana.Model{
		Type: "threshold", Expression: value,
		Conditions: []grafana.Condition{{Evaluator: grafana.Evaluator{Type: "gt", Params: []float64{r.above}}}},
	}))
}

func newExpression(ref string, m grafana.Model) grafana.Query {
	return grafana.Query{RefID: ref, DataSourceUID: grafana.ExpressionUID, Model: newModel(ref, m)}
}

func newModel(ref string, m grafana.Model) grafana.Model {
	m.RefID, m.IntervalMs, m.MaxDataPoints = ref, 1000, 43200
	return m
}

// formatDuration returns a duration in the notation of Prometheus.
func formatDuration(d time.Duration) string {
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
