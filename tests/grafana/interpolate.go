package grafana

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"rdma_events/assets/grafana"
)

// Range is a span of time that is shown or evaluated.
type Range struct{ From, To time.Time }

// Choice has the values that are chosen at the top of a dashboard, by the name of
// the variable. A variable without an entry has the value All if it offers that,
// and otherwise stays as it is in the query.
type Choice map[string][]string

// reserved are the characters that Grafana escapes in regular expressions for
// InfluxDB.
var reserved = regexp.MustCompile(`[\\^$*+?.()|[\]{}/]`)

func escapeRegexp(value string) string { return reserved.ReplaceAllString(value, `\$0`) }

// Render puts a dashboard's variables into a query, as the InfluxDB data
// source's frontend does: values in a regular expression and those of a variable
// with multiple values are escaped, and several values become (a|b). Any other
// single value is not escaped. All is the variable's own allValue, unescaped.
func Render(query string, variables []grafana.Variable, choice Choice) string {
	for _, v := range variables {
		name := regexp.MustCompile(`\$(?:` + v.Name + `\b|\{` + v.Name + `\})`)
		query = name.ReplaceAllLiteralString(query, renderVariable(query, &v, choice[v.Name]))
	}
	return query
}

func renderVariable(query string, v *grafana.Variable, values []string) string {
	inRegexp := regexp.MustCompile(`/\^?\$` + v.Name + `\b\$?/`).MatchString(query)
	switch {
	case len(values) == 0 && v.IncludeAll:
		return v.AllValue
	case len(values) == 0:
		return "$" + v.Name
	case len(values) == 1 && !inRegexp && !v.Multi:
		return values[0]
	case len(values) == 1:
		return escapeRegexp(values[0])
	}
	escaped := make([]string, len(values))
	for i, value := range values {
		escaped[i] = escapeRegexp(value)
	}
	return "(" + strings.Join(escaped, "|") + ")"
}

// Macros puts range and interval into a query, as the InfluxDB data source's
// backend does.
func Macros(query string, r Range, interval time.Duration) string {
	return strings.NewReplacer(
		"${__from}", strconv.FormatInt(r.From.UnixMilli(), 10), "${__to}", strconv.FormatInt(r.To.UnixMilli(), 10),
		"$timeFilter", fmt.Sprintf("time >= %dms and time <= %dms", r.From.UnixMilli(), r.To.UnixMilli()),
		"$__interval_ms", strconv.FormatInt(interval.Milliseconds(), 10),
		"$__interval", fmt.Sprintf("%dms", interval.Milliseconds()),
	).Replace(query)
}

// panelWidth is the number of points in time that a panel of full width shows, if
// the panel itself sets no bound.
const panelWidth = 1800

// Request is a query of a panel or a rule as Grafana sends it to InfluxDB.
type Request struct {
	Title string         // of the panel or the rule
	Panel *grafana.Panel // nil for a query of a rule
	RefID string
	Query string
}

// Requests returns every query of a dashboard as Grafana sends it while the
// dashboard shows a range that ends now.
func Requests(d *grafana.Dashboard, choice Choice, r Range) ([]Request, error) {
	var all []Request
	panels := d.All()
	for i := range panels {
		p := &panels[i]
		shown, interval, err := View(p, r)
		if err != nil {
			return nil, fmt.Errorf("panel %q of %s: %w", p.Title, d.UID, err)
		}
		for _, t := range p.Targets {
			query := Render(t.Query, d.Templating.List, choice)
			all = append(all, Request{Title: p.Title, Panel: p, RefID: t.RefID, Query: Macros(query, shown, interval)})
		}
	}
	return all, nil
}

// Annotations returns the queries of a dashboard's annotations, as Requests does
// for panels.
func Annotations(d *grafana.Dashboard, choice Choice, r Range) []string {
	var all []string
	for _, a := range d.Annotations.List {
		all = append(all, Macros(Render(a.Target.Query, d.Templating.List, choice), r, Interval(r, panelWidth, 0)))
	}
	return all
}

// View returns a panel's own range and interval while its dashboard shows r.
func View(p *grafana.Panel, r Range) (Range, time.Duration, error) {
	if p.TimeFrom != "" {
		back, err := parseDuration(p.TimeFrom)
		if err != nil {
			return r, 0, err
		}
		r.From = r.To.Add(-back)
	}
	least, err := parseDuration(p.Interval)
	if err != nil {
		return r, 0, err
	}
	count := p.MaxDataPoints
	if count == 0 {
		count = panelWidth * p.GridPos.W / 24
	}
	return r, Interval(r, count, least), nil
}

func parseDuration(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.Atoi(days)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(s)
}

// steps are the intervals that Grafana rounds to. A value is rounded up to a step
// from the middle between that step and the lower one on
// (rangeUtil.roundInterval, as far as hours).
var steps = []time.Duration{
	time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 20 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 20 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// Interval returns $__interval: the range divided by the number of points,
// rounded, and not below least.
func Interval(r Range, count int, least time.Duration) time.Duration {
	raw := r.To.Sub(r.From) / time.Duration(count)
	i, _ := slices.BinarySearchFunc(steps, raw, func(step, raw time.Duration) int {
		if step >= raw {
			return 1
		}
		return -1
	})
	switch {
	case i == len(steps):
		raw = steps[len(steps)-1]
	case i == 0:
		raw = steps[0]
	case raw < (steps[i-1]+steps[i])/2:
		raw = steps[i-1]
	default:
		raw = steps[i]
	}
	return max(raw, least)
}
