package gen

import (
	"fmt"
	"slices"
	"strings"

	"rdma_events/internal/agent/alerts"
	"rdma_events/internal/telemetry/measure"
)

// promCondition returns the expression for the series that fulfil the condition of an alert.
func promCondition(a *alerts.Alert) string {
	p := promSeries{measurement: a.Measurement}
	if a.Except.Name != "" {
		p.filter = fmt.Sprintf(`%s!=%q,`, a.Except.Name, a.Except.Value)
	}
	return p.expression(a.When, false)
}

// promSeries makes expressions of series of one measurement.
type promSeries struct {
	measurement string
	filter      string // ends with a comma, or is ""
}

// expression returns a condition in PromQL, in parentheses if it is a part of another one and has parts itself.
func (p *promSeries) expression(c alerts.Condition, part bool) string {
	switch c := c.(type) {
	case alerts.Comparison:
		if c.Other != "" {
			return fmt.Sprintf("%s %s %s", p.gauge(c.Field), c.Op, p.gauge(c.Other))
		}
		return fmt.Sprintf("%s %s %g", p.gauge(c.Field), c.Op, inPromUnit(c.Field, c.Number))
	case alerts.OneOf:
		family := familyOf(p.measurement, c.Field)
		return fmt.Sprintf("max without (%s) (%s == 1)", strings.Join(family.Fields, ", "), p.words(c))
	case alerts.Grew:
		all := make([]string, 0, len(c.Fields))
		for _, field := range c.Fields {
			all = append(all, fmt.Sprintf("increase(%s_%s_total%s[%s]) > %g", p.measurement, prometheusName(field), p.braces(),
				formatDuration(c.Within), float64(c.By)-0.5))
		}
		return strings.Join(all, " or ")
	case alerts.All:
		return p.join(c, " and ", part)
	case alerts.Any:
		return p.join(c, " or ", part)
	case alerts.Unless:
		not := p.expression(c.Not, true)
		if words, ok := c.Not.(alerts.OneOf); ok {
			not = fmt.Sprintf("on (%s) %s == 1", p.keys(), p.words(words))
		}
		return parenthesizeIf(p.expression(c.When, true)+" unless "+not, part)
	}
	panic(fmt.Sprintf("no PromQL for %v", c))
}

func (p *promSeries) join(all []alerts.Condition, by string, part bool) string {
	parts := make([]string, 0, len(all))
	for _, one := range all {
		parts = append(parts, p.expression(one, true))
	}
	return parenthesizeIf(strings.Join(parts, by), part)
}

func parenthesizeIf(text string, part bool) string {
	if part {
		return "(" + text + ")"
	}
	return text
}

// gauge returns the series of a number that is no counter.
func (p *promSeries) gauge(field string) string {
	return p.measurement + "_" + prometheusName(field) + p.braces()
}

func (p *promSeries) braces() string {
	if p.filter == "" {
		return ""
	}
	return "{" + p.filter + "}"
}

// words returns the series whose label is one of some words.
func (p *promSeries) words(c alerts.OneOf) string {
	return fmt.Sprintf("%s_%s{%s%s=~%q}", p.measurement, familyOf(p.measurement, c.Field).Name, p.filter, c.Field, strings.Join(c.Words, "|"))
}

// keys returns the labels that distinguish the series of a measurement.
func (p *promSeries) keys() string {
	keys := []string{"host"}
	for _, m := range measure.All() {
		if m.Name == p.measurement {
			for _, tag := range m.Tags {
				keys = append(keys, tag.Name)
			}
		}
	}
	return strings.Join(append(keys, "plugin_instance"), ", ")
}

// familyOf returns the family of labels that a string of a measurement is in.
func familyOf(measurement, field string) family {
	families := labelFamilies()[measurement]
	i := slices.IndexFunc(families, func(f family) bool { return slices.Contains(f.Fields, field) })
	if i < 0 {
		panic(fmt.Sprintf("%s.%s is in no family of labels", measurement, field))
	}
	return families[i]
}

// inPromUnit returns a number of a field in the units of Prometheus.
func inPromUnit(field string, number float64) float64 {
	switch {
	case strings.HasSuffix(field, "_gbps"):
		return number * 125e6
	case strings.Contains(field, "_ns"):
		return number / 1e9
	}
	return number
}
