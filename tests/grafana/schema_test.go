//go:build schema

package grafana

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/assets/grafana"
)

// schemaComplaints returns the lines that schema/check.mjs prints: the differences of
// dashboards and expressions from Grafana's published types.
func schemaComplaints(t *testing.T, expressions []any, dashboards ...string) string {
	t.Helper()
	require.DirExists(t, "schema/node_modules", "run: make test-schema")
	in, err := json.Marshal(expressions)
	require.NoError(t, err)
	var out, problem bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "node", append([]string{"schema/check.mjs"}, dashboards...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &problem
	err = cmd.Run()
	require.Empty(t, problem.String())
	require.Equal(t, out.Len() > 0, err != nil, "complaints and exit code: %v", err)
	return out.String()
}

func dashboardPaths(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "assets/dashboards/*.json"))
	require.NoError(t, err)
	forPrometheus, err := filepath.Glob(filepath.Join(root, "assets/prometheus/dashboards/*.json"))
	require.NoError(t, err)
	paths = append(paths, forPrometheus...)
	require.Len(t, paths, 10)
	return paths
}

// ruleExpressions returns the models of all expressions in the rules, as written in
// the file.
func ruleExpressions(t *testing.T) []any {
	t.Helper()
	f, err := parseExport([]byte(rulesText(t)))
	require.NoError(t, err)
	var all []any
	for _, g := range f.Groups {
		for _, r := range g.Rules {
			for _, q := range r.Data {
				if q.DatasourceUID == grafana.ExpressionUID {
					all = append(all, q.Model)
				}
			}
		}
	}
	require.Greater(t, len(all), 24)
	return all
}

func TestDashboardsAndExpressionsFollowGrafanasPublishedSchema(t *testing.T) {
	require.Empty(t, schemaComplaints(t, ruleExpressions(t), dashboardPaths(t)...))
}

func TestSchemaCheckReportsUnknownNamesAndValues(t *testing.T) {
	text, err := os.ReadFile(dashboardPaths(t)[1])
	require.NoError(t, err)
	for was, is := range map[string]string{
		`"colorMode": "background"`: `"colorMode": "sky"`,
		`"h": 4`:                    `"height": 4`,
		`"w": 4`:                    `"w": "4"`,
		`"drawStyle": "line"`:       `"drawStyle": "crayon"`,
		`"timeFrom": "5m"`:          `"timeForm": "5m"`,
		`"mode": "absolute"`:        `"mode": "relative"`,
		`"type": "query"`:           `"type": "question"`,
		`"type": "stat"`:            `"type": "speedometer"`,
	} {
		wrong := strings.Replace(string(text), was, is, 1)
		require.NotEqual(t, string(text), wrong, was)
		path := filepath.Join(t.TempDir(), "wrong.json")
		require.NoError(t, os.WriteFile(path, []byte(wrong), 0o644))
		require.NotEmpty(t, schemaComplaints(t, []any{}, path), is)
	}
	for _, wrong := range []map[string]any{
		{"type": "reduce", "expression": "A", "reducer": "latest"},
		{"type": "reduce", "expression": "A", "reducer": "last", "mode": "strict"},
		{"type": "threshold", "expression": "A", "conditions": []any{map[string]any{"evaluator": map[string]any{"type": "above", "params": []int{1}}}}},
		{"type": "maths", "expression": "$A"},
	} {
		require.NotEmpty(t, schemaComplaints(t, []any{wrong}), "%v", wrong)
	}
}
