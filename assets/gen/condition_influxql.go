package gen

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rdma_events/internal/agent/alerts"
)

// influxCondition returns the query for the series that fulfil the condition of an alert: its results are above a number.
func (o *Options) influxCondition(a *alerts.Alert) (steps []step, above float64) {
	switch when := a.When.(type) {
	case alerts.Grew:
		return []step{{query: grownAny(a.Measurement, exceptCondition(a), when.Fields...), from: when.Within}}, float64(when.By - 1)
	case alerts.Comparison:
		if number, ok := lowerBound(when); ok {
			query := fmt.Sprintf(`SELECT last(%[1]q) AS %[1]q FROM {%[2]s} WHERE {filter}%[3]s GROUP BY %[4]s`,
				when.Field, a.Measurement, exceptCondition(a), series[a.Measurement])
			return []step{{query: query, from: o.window()}}, number
		}
	case alerts.Any:
		if slices.ContainsFunc(when, isGrowth) {
			return []step{o.anyOf(a, when)}, 0
		}
	}
	inner := make([]string, 0, 3)
	for _, field := range fieldsOf(a.When) {
		inner = append(inner, fmt.Sprintf(`last(%[1]q) AS %[1]q`, field))
	}
	query := fmt.Sprintf(`SELECT count(%q) AS "n" FROM (SELECT %s FROM {%s} WHERE {filter}%s GROUP BY %s) WHERE $timeFilter AND %s GROUP BY %[5]s`,
		fieldsOf(a.When)[0], strings.Join(inner, ", "), a.Measurement, exceptCondition(a), series[a.Measurement], inWhere(a.When))
	return []step{{query: query, from: o.window()}}, 0
}

func isGrowth(c alerts.Condition) bool {
	_, ok := c.(alerts.Grew)
	return ok
}

// lowerBound returns the number above which a comparison holds, if the comparison has no other condition. For a field that is 0 or 1,
// "equal to 1" is "above 0".
func lowerBound(c alerts.Comparison) (number float64, ok bool) {
	switch {
	case c.Op == alerts.Greater && c.Other == "":
		return c.Number, true
	case c.Op == alerts.Equal && c.Number == 1:
		return 0, true
	}
	return 0, false
}

// anyOf asks for several things at once: each counts above 0 if it is so.
func (o *Options) anyOf(a *alerts.Alert, conditions alerts.Any) step {
	s := step{from: o.window()}
	var sources []string
	for _, one := range conditions {
		switch one := one.(type) {
		case alerts.Grew:
			for _, field := range one.Fields {
				sources = append(sources, counterIncreases(a.Measurement, field, exceptCondition(a), float64(one.By-1)))
			}
			s.from = max(s.from, one.Within)
		case alerts.Comparison:
			number, ok := lowerBound(one)
			if !ok {
				panic(fmt.Sprintf("%s: no query for %v", a.ID, one))
			}
			sources = append(sources, fmt.Sprintf(`(SELECT last(%q)%s AS "n" FROM {%s} WHERE {filter}%s GROUP BY %s)`,
				one.Field, minusNumber(number), a.Measurement, exceptCondition(a), series[a.Measurement]))
		default:
			panic(fmt.Sprintf("%s: no query for %v", a.ID, one))
		}
	}
	s.query = `SELECT max("n") AS "n" FROM ` + strings.Join(sources, ", ") + ` WHERE "n" > 0 AND $timeFilter GROUP BY ` + series[a.Measurement]
	return s
}

// minusNumber returns the end of an expression that subtracts a number, or "" for 0.
func minusNumber(number float64) string {
	if number == 0 {
		return ""
	}
	return " - " + formatDecimal(number)
}

// exceptCondition returns the end of a condition that leaves out the series with a tag, or "".
func exceptCondition(a *alerts.Alert) string {
	if a.Except.Name == "" {
		return ""
	}
	return fmt.Sprintf(` AND %q != '%s'`, a.Except.Name, a.Except.Value)
}

// fieldsOf returns the fields of a condition, in the order in which it names them.
func fieldsOf(c alerts.Condition) []string {
	var fields []string
	add := func(all ...string) {
		for _, f := range all {
			if f != "" && !slices.Contains(fields, f) {
				fields = append(fields, f)
			}
		}
	}
	switch c := c.(type) {
	case alerts.Comparison:
		add(c.Field, c.Other)
	case alerts.OneOf:
		add(c.Field)
	case alerts.Grew:
		add(c.Fields...)
	case alerts.All:
		for _, one := range c {
			add(fieldsOf(one)...)
		}
	case alerts.Any:
		for _, one := range c {
			add(fieldsOf(one)...)
		}
	case alerts.Unless:
		add(fieldsOf(c.When)...)
		add(fieldsOf(c.Not)...)
	}
	return fields
}

// inWhere returns a condition on the last values of fields.
func inWhere(c alerts.Condition) string {
	switch c := c.(type) {
	case alerts.Comparison:
		op := string(c.Op)
		if c.Op == alerts.Equal {
			op = "="
		}
		if c.Other != "" {
			return fmt.Sprintf(`%q %s %q`, c.Field, op, c.Other)
		}
		return fmt.Sprintf(`%q %s %s`, c.Field, op, formatDecimal(c.Number))
	case alerts.OneOf:
		words := make([]string, 0, len(c.Words))
		for _, word := range c.Words {
			words = append(words, fmt.Sprintf(`%q = '%s'`, c.Field, word))
		}
		return "(" + strings.Join(words, " OR ") + ")"
	case alerts.All:
		return joinWhere(c, " AND ")
	case alerts.Any:
		return joinWhere(c, " OR ")
	case alerts.Unless:
		return inWhere(c.When) + " AND " + notWhere(c.Not)
	}
	panic(fmt.Sprintf("no InfluxQL for %v", c))
}

func joinWhere(all []alerts.Condition, by string) string {
	parts := make([]string, 0, len(all))
	for _, one := range all {
		parts = append(parts, inWhere(one))
	}
	return "(" + strings.Join(parts, by) + ")"
}

// notWhere returns the contrary of a condition. InfluxQL has no NOT.
func notWhere(c alerts.Condition) string {
	switch c := c.(type) {
	case alerts.OneOf:
		words := make([]string, 0, len(c.Words))
		for _, word := range c.Words {
			words = append(words, fmt.Sprintf(`%q != '%s'`, c.Field, word))
		}
		return strings.Join(words, " AND ")
	case alerts.Comparison:
		if c.Op == alerts.Equal && c.Other == "" {
			return fmt.Sprintf(`%q != %s`, c.Field, formatDecimal(c.Number))
		}
	}
	panic(fmt.Sprintf("no InfluxQL for the contrary of %v", c))
}

// formatDecimal returns a number for InfluxQL, which does not read exponents.
func formatDecimal(number float64) string { return strconv.FormatFloat(number, 'f', -1, 64) }
