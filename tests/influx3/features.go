package influx3

// Documentation is the address of the documentation of InfluxDB 3 Core. That of Enterprise has the same text about InfluxQL.
const Documentation = "https://docs.influxdata.com/influxdb3/core/"

// These are the InfluxQL reference and the guides to queries, below Documentation.
const (
	reference = "reference/influxql/"
	guides    = "query-data/influxql/"
)

// kind says what a function returns for a group of points.
type kind int

const (
	aggregate      kind = iota // a row for each group
	selector                   // one or several points of each group
	transformation             // a row for each row
	analysis                   // technical and predictive analysis
	miscellaneous              // date, time and fill
)

// function is what the page feature-support says about a function.
type function struct {
	kind      kind
	supported bool
}

// pageFeatures is the page with the tables of functions and metaqueries.
const pageFeatures = reference + "feature-support/"

// functions has the tables of the page feature-support, section "Function support".
var functions = map[string]function{
	"count": {aggregate, true}, "distinct": {aggregate, true}, "integral": {aggregate, true}, "mean": {aggregate, true},
	"median": {aggregate, true}, "mode": {aggregate, true}, "spread": {aggregate, true}, "stddev": {aggregate, true},
	"sum": {aggregate, true},

	"bottom": {selector, true}, "first": {selector, true}, "last": {selector, true}, "max": {selector, true}, "min": {selector, true},
	"percentile": {selector, true}, "sample": {selector, false}, "top": {selector, true},

	"abs": {transformation, true}, "acos": {transformation, true}, "asin": {transformation, true}, "atan": {transformation, true},
	"atan2": {transformation, true}, "ceil": {transformation, true}, "cos": {transformation, true},
	"cumulative_sum": {transformation, true}, "derivative": {transformation, true}, "difference": {transformation, true},
	"elapsed": {transformation, true}, "exp": {transformation, true}, "floor": {transformation, true}, "ln": {transformation, true},
	"log": {transformation, true}, "log2": {transformation, true}, "log10": {transformation, true},
	"moving_average": {transformation, true}, "non_negative_derivative": {transformation, true},
	"non_negative_difference": {transformation, true}, "pow": {transformation, true}, "round": {transformation, true},
	"sin": {transformation, true}, "sqrt": {transformation, true}, "tan": {transformation, true},

	"chande_momentum_oscillator": {analysis, false}, "double_exponential_moving_average": {analysis, false},
	"exponential_moving_average": {analysis, false}, "holt_winters": {analysis, false}, "holt_winters_with_fit": {analysis, false},
	"kaufmans_efficiency_ratio": {analysis, false}, "kaufmans_adaptive_moving_average": {analysis, false},
	"relative_strength_index": {analysis, false}, "triple_exponential_moving_average": {analysis, false},
	"triple_exponential_derivative": {analysis, false},

	"now": {miscellaneous, true}, "time": {miscellaneous, true}, "tz": {miscellaneous, true}, "fill": {miscellaneous, true},
}

// statement is what the documentation says about a statement.
type statement struct {
	name      string
	supported bool
	page      string
}

// pageStatements is the section with the grammar of all supported statements.
const pageStatements = reference + "#queries"

// statements has the grammar's statements, and the metaqueries that the page feature-support says are not supported, by the name of
// the parser's type. A statement that is in neither is not supported.
var statements = map[string]statement{
	"SelectStatement":                {"SELECT", true, pageStatements},
	"ExplainStatement":               {"EXPLAIN", true, pageStatements},
	"ShowFieldKeysStatement":         {"SHOW FIELD KEYS", true, pageStatements},
	"ShowMeasurementsStatement":      {"SHOW MEASUREMENTS", true, pageStatements},
	"ShowRetentionPoliciesStatement": {"SHOW RETENTION POLICIES", true, pageStatements},
	"ShowTagKeysStatement":           {"SHOW TAG KEYS", true, pageStatements},
	"ShowTagValuesStatement":         {"SHOW TAG VALUES", true, pageStatements},

	"ShowDatabasesStatement":              {"SHOW DATABASES", false, pageFeatures + "#metaqueries"},
	"ShowSeriesStatement":                 {"SHOW SERIES", false, pageFeatures + "#metaqueries"},
	"ShowSeriesCardinalityStatement":      {"SHOW SERIES CARDINALITY", false, pageFeatures + "#metaqueries"},
	"ShowTagKeyCardinalityStatement":      {"SHOW TAG KEY CARDINALITY", false, pageFeatures + "#metaqueries"},
	"ShowTagValuesCardinalityStatement":   {"SHOW TAG VALUES CARDINALITY", false, pageFeatures + "#metaqueries"},
	"ShowFieldKeyCardinalityStatement":    {"SHOW FIELD KEY CARDINALITY", false, pageFeatures + "#metaqueries"},
	"CreateContinuousQueryStatement":      {"CREATE CONTINUOUS QUERY", false, pageStatements},
	"CreateDatabaseStatement":             {"CREATE DATABASE", false, pageStatements},
	"CreateRetentionPolicyStatement":      {"CREATE RETENTION POLICY", false, pageStatements},
	"ShowMeasurementCardinalityStatement": {"SHOW MEASUREMENT CARDINALITY", false, pageStatements},
}

// rule is a clause or a combination that the documentation excludes.
type rule struct {
	reason string // what is not supported, as a table's cell says it
	page   string // below Documentation
}

// The rules, each with the section that has it.
var (
	limitsSeries  = rule{"`SLIMIT`", pageFeatures + "#slimit-clause"}
	skipsSeries   = rule{"`SOFFSET`", pageFeatures + "#soffset-clause"}
	writesInto    = rule{"`INTO`", reference + "#select"}
	mathInCall    = rule{"an operator within a function's arguments", reference + "math-operators/#mathematical-operators-with-functions"}
	mathOnPattern = rule{
		"an operator on a wildcard or regular expression", reference + "math-operators/#mathematical-operators-with-wildcards-and-regular-expressions",
	}
	mixesFields = rule{
		"a field beside an aggregate or selector", reference + "select/#cannot-include-both-aggregate-and-non-aggregate-field-expressions",
	}
	mixesTags = rule{
		"a tag beside an aggregate",
		guides + "troubleshoot/#error-parsing-query-mixing-aggregate-and-non-aggregate-queries-is-not-supported",
	}
	groupsRaw       = rule{"`GROUP BY` without an aggregate or selector", reference + "group-by/"}
	groupsByField   = rule{"`GROUP BY` a field", reference + "group-by/#cannot-group-by-fields"}
	transformsTimes = rule{
		"a transformation of a field with `GROUP BY time()`",
		reference + "functions/transformations/#must-use-aggregate-or-selector-functions-when-grouping-by-time",
	}
	severalRanges = rule{"several ranges of time", reference + "where/#cannot-query-multiple-time-ranges"}
	showsField    = rule{"`WITH KEY` of a field", guides + "explore-schema/#list-tag-values-for-a-specific-tag-key"}
	showsByField  = rule{
		"`SHOW TAG VALUES` with a condition on a field",
		guides + "explore-schema/#list-tag-values-associated-with-a-specific-tag-key-value-pair",
	}
	sortsSchema     = rule{"`SHOW` with `ORDER BY`", reference + "show/"}
	limitsFieldKeys = rule{"`SHOW FIELD KEYS` with `LIMIT` or `OFFSET`", reference + "show/#show-field-keys"}
)
