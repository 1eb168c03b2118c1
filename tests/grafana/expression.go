package grafana

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"rdma_events/assets/grafana"
	"rdma_events/tests/influx"
)

// errExpression is wrapped by errors about the content of an expression.
var errExpression = errors.New("not an expression that rules here use")

// Number is the value that a rule computes from one series.
type Number struct {
	Labels map[string]string
	Value  float64
}

// labelsKey returns labels as text. Two texts are equal only if the labels are.
func labelsKey(labels map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, name+"="+labels[name])
	}
	return strings.Join(parts, ",")
}

// reduceSeries returns the last value of each series, as Grafana's expression of that
// type does without a mode: the last value counts even if it is null, as NaN.
func reduceSeries(series []influx.Series, reducer string) ([]Number, error) {
	if reducer != "last" {
		return nil, fmt.Errorf("reducer %q: %w", reducer, errExpression)
	}
	var numbers []Number
	seen := map[string]bool{}
	for _, s := range series {
		if seen[labelsKey(s.Tags)] {
			return nil, fmt.Errorf("two series of %v: %w", s.Tags, errExpression) // Grafana refuses them
		}
		seen[labelsKey(s.Tags)] = true
		if len(s.Columns) != 2 {
			return nil, fmt.Errorf("%d columns, want time and one value: %w", len(s.Columns), errExpression)
		}
		n := Number{Labels: s.Tags, Value: math.NaN()}
		if last := s.Values[len(s.Values)-1][1]; last != nil {
			x, err := strconv.ParseFloat(fmt.Sprint(last), 64)
			if err != nil {
				return nil, fmt.Errorf("value of %s: %w", s.Name, err)
			}
			n.Value = x
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// evaluateMath evaluates a math expression. Grafana has the same operators with the same precedence as Go, but true is 1 and
// false is 0.
func evaluateMath(expression string, vars map[string][]Number) ([]Number, error) {
	tree, err := parser.ParseExpr(strings.ReplaceAll(expression, "$", ""))
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", expression, err)
	}
	result, err := evaluateTree(tree, vars)
	if err != nil {
		return nil, fmt.Errorf("calculate %s: %w", expression, err)
	}
	return result, nil
}

func evaluateTree(tree ast.Expr, vars map[string][]Number) ([]Number, error) {
	switch e := tree.(type) {
	case *ast.ParenExpr:
		return evaluateTree(e.X, vars)
	case *ast.BasicLit:
		x, err := strconv.ParseFloat(e.Value, 64)
		return []Number{{Value: x}}, err
	case *ast.Ident:
		numbers, ok := vars[e.Name]
		if !ok {
			return nil, fmt.Errorf("no result of %s: %w", e.Name, errExpression)
		}
		return numbers, nil
	case *ast.BinaryExpr:
		return evaluateBinary(e, vars)
	}
	return nil, fmt.Errorf("%T: %w", tree, errExpression)
}

func evaluateBinary(e *ast.BinaryExpr, vars map[string][]Number) ([]Number, error) {
	left, err := evaluateTree(e.X, vars)
	if err != nil {
		return nil, err
	}
	right, err := evaluateTree(e.Y, vars)
	if err != nil {
		return nil, err
	}
	var out []Number
	for _, p := range union(left, right) {
		x, err := applyOperator(e.Op, p.left.Value, p.right.Value)
		if err != nil {
			return nil, err
		}
		out = append(out, Number{Labels: p.labels, Value: x})
	}
	return out, nil
}

type pair struct {
	left, right Number
	labels      map[string]string
}

// union pairs two numbers if the labels of one contain the labels of the other, and drops numbers without a partner
// (mathexp.union). If each side has just one number, it pairs them even if they do not match, without labels.
func union(left, right []Number) []pair {
	var pairs []pair
	for _, l := range left {
		for _, r := range right {
			switch {
			case containsLabels(l.Labels, r.Labels):
				pairs = append(pairs, pair{l, r, l.Labels})
			case containsLabels(r.Labels, l.Labels):
				pairs = append(pairs, pair{l, r, r.Labels})
			}
		}
	}
	if pairs == nil && len(left) == 1 && len(right) == 1 {
		pairs = []pair{{left: left[0], right: right[0]}}
	}
	return pairs
}

// containsLabels reports whether labels contain all the others with the same values.
func containsLabels(labels, others map[string]string) bool {
	for name, value := range others {
		if have, ok := labels[name]; !ok || have != value {
			return false
		}
	}
	return true
}

func applyOperator(op token.Token, l, r float64) (float64, error) {
	if math.IsNaN(l) || math.IsNaN(r) {
		return math.NaN(), nil
	}
	switch op {
	case token.MUL:
		return l * r, nil
	case token.SUB:
		return l - r, nil
	case token.LEQ:
		return truth(l <= r), nil
	case token.EQL:
		return truth(l == r), nil
	case token.LSS:
		return truth(l < r), nil
	case token.GTR:
		return truth(l > r), nil
	case token.GEQ:
		return truth(l >= r), nil
	case token.LAND:
		return truth(l != 0 && r != 0), nil
	case token.LOR:
		return truth(l != 0 || r != 0), nil
	}
	return 0, fmt.Errorf("operator %s: %w", op, errExpression)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// evaluateThreshold returns 1 for each number above the bound and 0 for each other number.
func evaluateThreshold(numbers []Number, conditions []grafana.Condition) ([]Number, error) {
	if len(conditions) != 1 || conditions[0].Evaluator.Type != "gt" || len(conditions[0].Evaluator.Params) != 1 {
		return nil, fmt.Errorf("threshold %v: %w", conditions, errExpression)
	}
	bound := conditions[0].Evaluator.Params[0]
	out := make([]Number, len(numbers))
	for i, n := range numbers {
		out[i] = Number{Labels: n.Labels, Value: truth(n.Value > bound)}
	}
	return out, nil
}
