package alerts

import "time"

// Condition is what has to be so for an alert, of the last point of one series. A field that the point does not have makes
// a comparison false.
type Condition interface{ isCondition() }

// Comparison compares a number with another one.
type Comparison struct {
	Field  string
	Op     Op
	Number float64
	Other  string // the field with which it is compared instead of Number; "": Number
}

// Op is how two numbers are compared.
type Op string

// The comparisons.
const (
	Equal   Op = "=="
	Less    Op = "<"
	Greater Op = ">"
)

// OneOf is so if a string is one of some.
type OneOf struct {
	Field string
	Words []string
}

// Grew is so if one of the counters has grown By times or more within a duration; with several counters By is 1. What a series
// begins with is no growth, unless FromZero: then the series begins with the first thing that it counts. A counter that falls begins
// again at 0.
type Grew struct {
	Fields   []string
	By       uint64
	Within   time.Duration
	FromZero bool
}

// All is so if all of it is.
type All []Condition

// Any is so if any of it is.
type Any []Condition

// Unless is so if When is, and Not is not.
type Unless struct{ When, Not Condition }

// AcrossSeries compares several series of one host, in words. Those who evaluate the table have code or a query of their own for
// each alert with it.
type AcrossSeries string

func (Comparison) isCondition()   {}
func (OneOf) isCondition()        {}
func (Grew) isCondition()         {}
func (All) isCondition()          {}
func (Any) isCondition()          {}
func (Unless) isCondition()       {}
func (AcrossSeries) isCondition() {}

// is, above, below and belowField make comparisons.
func is(field string, number float64) Condition {
	return Comparison{Field: field, Op: Equal, Number: number}
}

func above(field string, number float64) Condition {
	return Comparison{Field: field, Op: Greater, Number: number}
}

func belowField(field, other string) Condition {
	return Comparison{Field: field, Op: Less, Other: other}
}

func oneOf(field string, words ...string) Condition { return OneOf{field, words} }

func grew(field string, by uint64, within time.Duration) Condition {
	return Grew{Fields: []string{field}, By: by, Within: within}
}
