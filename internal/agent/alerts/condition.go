package alerts

import "time"

// Condition is the condition of an alert on the last point of one series. A comparison with a field that the point
// lacks is false.
type Condition interface{ isCondition() }

// Comparison compares a field with a number or with another field.
type Comparison struct {
	Field  string
	Op     Op
	Number float64
	Other  string // field to compare with; "": compare with Number
}

// Op is the operator of a Comparison.
type Op string

// The comparisons.
const (
	Equal   Op = "=="
	Less    Op = "<"
	Greater Op = ">"
)

// OneOf holds if the field is one of Words.
type OneOf struct {
	Field string
	Words []string
}

// Grew holds if one of the counters has grown by By or more within a duration. With several counters By is 1. The first
// value of a series is not growth, unless FromZero is set: then the series starts with the first thing that it counts,
// so its first value is growth. If a counter falls, it is taken as reset to 0.
type Grew struct {
	Fields   []string
	By       uint64
	Within   time.Duration
	FromZero bool
}

// All holds if all of its conditions hold.
type All []Condition

// Any holds if at least one of its conditions holds.
type Any []Condition

// Unless holds if When holds and Not does not hold.
type Unless struct{ When, Not Condition }

// AcrossSeries describes, in words, a condition on several series of one host. Each evaluator of the table has its own
// code or query for it.
type AcrossSeries string

func (Comparison) isCondition()   {}
func (OneOf) isCondition()        {}
func (Grew) isCondition()         {}
func (All) isCondition()          {}
func (Any) isCondition()          {}
func (Unless) isCondition()       {}
func (AcrossSeries) isCondition() {}

// equals returns the condition that a field has a value.
func equals(field string, number float64) Condition {
	return Comparison{Field: field, Op: Equal, Number: number}
}

// greaterThan returns the condition that a field is above a number.
func greaterThan(field string, number float64) Condition {
	return Comparison{Field: field, Op: Greater, Number: number}
}

// lessThanField returns the condition that a field is below another field.
func lessThanField(field, other string) Condition {
	return Comparison{Field: field, Op: Less, Other: other}
}

func oneOf(field string, words ...string) Condition { return OneOf{field, words} }

func grew(field string, by uint64, within time.Duration) Condition {
	return Grew{Fields: []string{field}, By: by, Within: within}
}
