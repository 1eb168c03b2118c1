package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/telemetry/measure"
)

func TestTheCommittedDocumentationIsCurrent(t *testing.T) {
	committed, err := os.ReadFile("../../../../docs/metrics.md")
	require.NoError(t, err)
	require.Equal(t, document(measure.All()), string(committed), "run go generate ./plugins/inputs/rdma_events")
}

func TestEveryRowIsDocumented(t *testing.T) {
	text := document([]measure.Metric{{
		Name: "m", Emitted: "never", Description: strings.Repeat("word ", 40),
		Tags:   []measure.Tag{{Name: "t", Description: "a|b", Optional: true}},
		Fields: []measure.Field{{Name: "f", Kind: measure.Int, Unit: "ns", Description: "time"}},
	}})
	require.Contains(t, text, "| `t` | a\\|b (optional) |\n")
	require.Contains(t, text, "| `f` | int64 | ns | time |\n")
	for line := range strings.Lines(text) {
		require.True(t, len(line) <= 81 || strings.HasPrefix(line, "|"), line)
	}
}
