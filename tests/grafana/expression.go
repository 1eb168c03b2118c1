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

// key returns labels as a text that is the same for equal labels only.
func key(labels map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, name+"="+labels[name])
	}
	return strings.Join(parts, ",")
}

// reduce returns the last value of each series, as Grafana's expression of that
// type does without a mode: the last value counts even if it is null, as NaN.
func reduce(series []influx.Series, reducer string) ([]Number, error) {
	if reducer != "last" {
		return nil, fmt.Errorf("reducer %q: %w", reducer, errExpression)
	}
	var numbers []Number
	seen := map[string]bool{}
	for _, s := range series {
		if seen[key(s.Tags)] {
			return nil, fmt.Errorf("two series of %v: %w", s.Tags, errExpression) // Grafana refuses them
		}
		seen[key(s.Tags)] = true
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

// calculate evaluates a math expression. Grafana's operators and their precedence
// are those of Go, with 1 and 0 for true and false.
func calculate(expression string, vars map[string][]Number) ([]Number, error) {
	tree, err := parser.ParseExpr(strings.ReplaceAll(expression, "$", ""))
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", expression, err)
	}
	result, err := walk(tree, vars)
	if err != nil {
		return nil, fmt.Errorf("calculate %s: %w", expression, err)
	}
	return result, nil
}

func walk(tree ast.Expr, vars map[string][]Number) ([]Number, error) {
	switch e := tree.(type) {
	case *ast.ParenExpr:
		return walk(e.X, vars)
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
		return binary(e, vars)
	}
	return nil, fmt.Errorf("%T: %w", tree, errExpression)
}

func binary(e *ast.BinaryExpr, vars map[string][]Number) ([]Number, error) {
	left, err := walk(e.X, vars)
	if err != nil {
		return nil, err
	}
	right, err := walk(e.Y, vars)
	if err != nil {
		return nil, err
	}
	var out []Number
	for _, p := range union(left, right) {
		x, err := operate(e.Op, p.left.Value, p.right.Value)
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

// union pairs two numbers if their labels are equal, or those of one contain those of
// the other, and drops the others (mathexp.union). If each side has one number and
// they do not match, it still pairs them, without labels.
func union(left, right []Number) []pair {
	var pairs []pair
	for _, l := range left {
		for _, r := range right {
			switch {
			case contains(l.Labels, r.Labels):
				pairs = append(pairs, pair{l, r, l.Labels})
			case contains(r.Labels, l.Labels):
				pairs = append(pairs, pair{l, r, r.Labels})
			}
		}
	}
	if pairs == nil && len(left) == 1 && len(right) == 1 {
		pairs = []pair{{left: left[0], right: right[0]}}
	}
	return pairs
}

// contains reports whether labels have all that others have.
func contains(labels, others map[string]string) bool {
	for name, value := range others {
		if have, ok := labels[name]; !ok || have != value {
			return false
		}
	}
	return true
}

func operate(op token.Token, l, r float64) (float64, error) {
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

// compare evaluates a threshold: 1 for each number above the bound, 0 for others.
func compare(numbers []Number, conditions []grafana.Condition) ([]Number, error) {
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
