package prom

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"
)

// UnitFile is a file of unit tests of rules, as far as tests need it (promtool test rules).
type UnitFile struct {
	RuleFiles []string   `yaml:"rule_files"`
	Interval  string     `yaml:"evaluation_interval"`
	Tests     []UnitTest `yaml:"tests"`
}

// UnitTest is one case: series, and what expressions return from them.
type UnitTest struct {
	Name     string       `yaml:"name,omitempty"`
	Interval string       `yaml:"interval"`
	Series   []UnitSeries `yaml:"input_series"`
	Exprs    []UnitExpr   `yaml:"promql_expr_test"`
}

// UnitSeries is a series with its samples in promtool's notation, such as 0x30 3x209.
type UnitSeries struct {
	Series string `yaml:"series"`
	Values string `yaml:"values"`
}

// UnitExpr is an expression and all samples that it has to return at a time after the start, such as 1h.
type UnitExpr struct {
	Expr    string       `yaml:"expr"`
	At      string       `yaml:"eval_time"`
	Samples []UnitSample `yaml:"exp_samples"`
}

// UnitSample is a sample of a vector. Labels are in braces.
type UnitSample struct {
	Labels string  `yaml:"labels"`
	Value  float64 `yaml:"value"`
}

// TestUnits writes a file of unit tests into a directory and runs it. The error has what promtool found instead.
func (p Promtool) TestUnits(ctx context.Context, f UnitFile, dir string) error {
	text, err := yaml.Marshal(f)
	if err != nil {
		return fmt.Errorf("marshal unit tests of rules: %w", err)
	}
	path := filepath.Join(dir, "units.yml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	return p.TestRules(ctx, path)
}
