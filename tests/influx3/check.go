package influx3

import (
	"fmt"
	"slices"
	"strings"

	"github.com/influxdata/influxql"
)

// Schema has the tags of each measurement. Every other name in a query is a field.
type Schema map[string][]string

// Finding is something in a query that the documentation excludes.
type Finding struct {
	Reason string // the function or clause
	Page   string // the page and section that says so, below Documentation
}

// Check returns what InfluxDB 3 does not support in a query according to its documentation, without repetitions.
func Check(query string, schema Schema) ([]Finding, error) {
	parsed, err := influxql.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("parse InfluxQL: %w", err)
	}
	c := checker{schema: schema}
	for _, s := range parsed.Statements {
		c.checkStatement(s)
	}
	return c.found, c.err
}

type checker struct {
	schema Schema
	found  []Finding
	err    error // the first measurement that the schema lacks
}

func (c *checker) report(reason, page string) {
	if f := (Finding{reason, page}); !slices.Contains(c.found, f) {
		c.found = append(c.found, f)
	}
}

// reportIf reports that a rule excludes the query.
func (c *checker) reportIf(excluded bool, r rule) {
	if excluded {
		c.report(r.reason, r.page)
	}
}

func (c *checker) checkStatement(s influxql.Statement) {
	known, ok := statements[strings.TrimPrefix(fmt.Sprintf("%T", s), "*influxql.")]
	if !ok {
		known = statement{name: s.String(), page: pageStatements}
	}
	if !known.supported {
		c.report("`"+known.name+"`", known.page)
		return
	}
	switch s := s.(type) {
	case *influxql.SelectStatement:
		c.checkSelect(s)
	case *influxql.ExplainStatement:
		c.checkSelect(s.Statement)
	case *influxql.ShowTagValuesStatement:
		c.checkTagValues(s)
	case *influxql.ShowTagKeysStatement:
		c.reportIf(s.SLimit > 0, limitsSeries)
		c.reportIf(s.SOffset > 0, skipsSeries)
		c.checkSchemaQuery(s.Condition, s.SortFields)
	case *influxql.ShowFieldKeysStatement:
		c.reportIf(s.Limit > 0 || s.Offset > 0, limitsFieldKeys)
		c.checkSchemaQuery(nil, s.SortFields)
	case *influxql.ShowMeasurementsStatement:
		c.checkSchemaQuery(s.Condition, s.SortFields)
	}
}

// checkSchemaQuery checks the clauses that SHOW statements share.
func (c *checker) checkSchemaQuery(condition influxql.Expr, sorted influxql.SortFields) {
	c.reportIf(len(sorted) > 0, sortsSchema)
	c.reportIf(condition != nil && hasSeveralRanges(condition), severalRanges)
}

// checkTagValues checks that keys and conditions name tags of the measurements. Without FROM they may be tags of any measurement.
func (c *checker) checkTagValues(s *influxql.ShowTagValuesStatement) {
	c.checkSchemaQuery(s.Condition, s.SortFields)
	if len(s.Sources) == 0 {
		return
	}
	tags := c.tagsOf(s.Sources)
	c.reportIf(slices.ContainsFunc(keysOf(s.TagKeyExpr), func(key string) bool { return !slices.Contains(tags, key) }), showsField)
	if s.Condition == nil {
		return
	}
	c.reportIf(slices.ContainsFunc(influxql.ExprNames(s.Condition), func(name influxql.VarRef) bool {
		return name.Val != "time" && !slices.Contains(tags, name.Val)
	}), showsByField)
}

// keysOf returns the tag keys that WITH KEY names. A regular expression names none.
func keysOf(e influxql.Literal) []string {
	switch e := e.(type) {
	case *influxql.StringLiteral:
		return []string{e.Val}
	case *influxql.ListLiteral:
		return e.Vals
	}
	return nil
}

func (c *checker) checkSelect(s *influxql.SelectStatement) {
	c.reportIf(s.SLimit > 0, limitsSeries)
	c.reportIf(s.SOffset > 0, skipsSeries)
	c.reportIf(s.Target != nil, writesInto)
	for _, f := range s.Fields {
		c.checkExpression(f.Expr)
	}
	c.checkGroups(s)
	c.reportIf(s.Condition != nil && hasSeveralRanges(s.Condition), severalRanges)
	for _, source := range s.Sources {
		if sub, ok := source.(*influxql.SubQuery); ok {
			c.checkSelect(sub.Statement)
		}
	}
}

// checkExpression checks the functions and operators of a column.
func (c *checker) checkExpression(e influxql.Expr) {
	influxql.WalkFunc(e, func(n influxql.Node) {
		switch n := n.(type) {
		case *influxql.Call:
			if !functions[n.Name].supported {
				c.report("`"+n.Name+"()`", pageFeatures+"#function-support")
			}
			c.reportIf(slices.ContainsFunc(n.Args, hasOperator), mathInCall)
		case *influxql.BinaryExpr:
			c.reportIf(hasPattern(n), mathOnPattern)
		}
	})
}

// checkGroups checks which columns stand beside each other, and what they are grouped by.
func (c *checker) checkGroups(s *influxql.SelectStatement) {
	tags := c.tagsOf(s.Sources)
	var cols columns
	for _, f := range s.Fields {
		cols.add(f.Expr, tags)
	}
	byField, byTime := false, false
	for _, d := range s.Dimensions {
		switch e := d.Expr.(type) {
		case *influxql.Call:
			byTime = byTime || e.Name == "time"
		case *influxql.VarRef:
			byField = byField || !slices.Contains(tags, e.Val)
		}
	}
	c.reportIf(byField, groupsByField)
	c.reportIf(cols.reduced && cols.bare, mixesFields)
	c.reportIf(cols.aggregated && cols.tagged, mixesTags)
	c.reportIf(len(s.Dimensions) > 0 && !cols.reduced && !cols.transformed, groupsRaw)
	c.reportIf(byTime && cols.transformed && cols.bare, transformsTimes)
}

// columns tells what the columns of a SELECT clause are made of.
type columns struct {
	reduced     bool // by an aggregate or selector
	aggregated  bool // by an aggregate
	transformed bool // by a transformation
	bare        bool // a field in no aggregate or selector
	tagged      bool // a tag in no aggregate or selector
}

func (cols *columns) add(e influxql.Expr, tags []string) {
	switch e := e.(type) {
	case *influxql.Call:
		switch functions[e.Name].kind {
		case aggregate, selector:
			cols.reduced = true
			cols.aggregated = cols.aggregated || functions[e.Name].kind == aggregate
			return // its arguments are reduced
		default:
			cols.transformed = true
		}
		for _, arg := range e.Args {
			cols.add(arg, tags)
		}
	case *influxql.BinaryExpr:
		cols.add(e.LHS, tags)
		cols.add(e.RHS, tags)
	case *influxql.ParenExpr:
		cols.add(e.Expr, tags)
	case *influxql.VarRef:
		tag := slices.Contains(tags, e.Val)
		cols.tagged = cols.tagged || tag
		cols.bare = cols.bare || e.Val != "time" && !tag
	case *influxql.Wildcard, *influxql.RegexLiteral:
		cols.bare = true
	}
}

// tagsOf returns the tags that sources offer. A subquery offers those that it groups by or selects.
func (c *checker) tagsOf(sources influxql.Sources) []string {
	var tags []string
	for _, source := range sources {
		switch source := source.(type) {
		case *influxql.Measurement:
			own, ok := c.schema[source.Name]
			if !ok && c.err == nil {
				c.err = fmt.Errorf("check InfluxQL: the schema has no measurement %s", source)
			}
			tags = append(tags, own...)
		case *influxql.SubQuery:
			offered := source.Statement.ColumnNames()
			_, dimensions := source.Statement.Dimensions.Normalize()
			offered = append(offered, dimensions...)
			for _, tag := range c.tagsOf(source.Statement.Sources) {
				if slices.Contains(offered, tag) {
					tags = append(tags, tag)
				}
			}
		}
	}
	return tags
}

// hasOperator reports whether an argument of a function has an operator that is not within a function of its own.
func hasOperator(e influxql.Expr) bool {
	switch e := e.(type) {
	case *influxql.BinaryExpr:
		return true
	case *influxql.ParenExpr:
		return hasOperator(e.Expr)
	}
	return false
}

// hasPattern reports whether an expression has a wildcard or a regular expression.
func hasPattern(e influxql.Expr) bool {
	found := false
	influxql.WalkFunc(e, func(n influxql.Node) {
		switch n.(type) {
		case *influxql.Wildcard, *influxql.RegexLiteral:
			found = true
		}
	})
	return found
}

// hasSeveralRanges reports whether a condition has times on both sides of an OR.
func hasSeveralRanges(e influxql.Expr) bool {
	found := false
	influxql.WalkFunc(e, func(n influxql.Node) {
		if b, ok := n.(*influxql.BinaryExpr); ok && b.Op == influxql.OR {
			found = found || namesTime(b.LHS) && namesTime(b.RHS)
		}
	})
	return found
}

func namesTime(e influxql.Expr) bool {
	found := false
	influxql.WalkFunc(e, func(n influxql.Node) {
		if ref, ok := n.(*influxql.VarRef); ok && ref.Val == "time" {
			found = true
		}
	})
	return found
}
