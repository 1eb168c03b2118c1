package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/docs/document"
	"rdma_events/internal/telemetry/measure"
)

const (
	root   = "../../../../"
	readme = "../README.md"
	golden = root + "internal/telemetry/measure/testdata/filled.influx"
)

func TestTheCommittedDocumentationIsCurrent(t *testing.T) {
	committed, err := os.ReadFile(root + "docs/reference/metrics.md")
	require.NoError(t, err)
	require.Equal(t, referenceText(measure.All()), string(committed), "run go generate ./plugins/inputs/rdma_events")
}

func TestTheCommittedReadmeIsCurrent(t *testing.T) {
	committed, err := os.ReadFile(readme)
	require.NoError(t, err)
	lines, err := os.ReadFile(golden)
	require.NoError(t, err)
	for name, part := range readmeParts(measure.All(), string(lines)) {
		current, err := document.Replace(string(committed), name, part)
		require.NoError(t, err)
		require.Equal(t, current, string(committed), "run go generate ./plugins/inputs/rdma_events")
	}
}

func TestTheExampleHasALineOfEachMeasurement(t *testing.T) {
	lines, err := os.ReadFile(golden)
	require.NoError(t, err)
	text := exampleLines(string(lines))
	for _, m := range measure.All() {
		require.Regexp(t, `(?m)^`+m.Name+`[, ]`, text)
	}
	require.Equal(t, "a,b=1 c=1 1\nd e=2 2\n", exampleLines("a,b=1 c=1 1\na,b=2 c=1 1\nd e=2 2\n"))
}

func TestEveryRowIsDocumented(t *testing.T) {
	metrics := []measure.Metric{{
		Name: "m", Emitted: "never", Description: strings.Repeat("word ", 40),
		Tags:   []measure.Tag{{Name: "t", Description: "a|b", Optional: true}},
		Fields: []measure.Field{{Name: "f", Kind: measure.Int, Unit: "ns", Description: "time"}},
	}}
	text := referenceText(metrics)
	require.Contains(t, text, "| `t` | a\\|b (optional) |\n")
	require.Contains(t, text, "| `f` | int64 | ns | time |\n")
	for line := range strings.Lines(text) {
		require.True(t, len(line) <= 81 || strings.HasPrefix(line, "|"), line)
	}
	text = listMetrics(metrics)
	require.Contains(t, text, "\n- m: never. word word")
	require.Contains(t, text, "\n  - tags: `t` (optional)\n  - fields: `f`\n")
	for line := range strings.Lines(text) {
		require.LessOrEqual(t, len(line), 81, line)
	}
}
