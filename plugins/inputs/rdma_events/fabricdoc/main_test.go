package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/docs/document"
)

func TestFabricDocumentSaysWhatTheTableSays(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/reference/verdicts.md")
	require.NoError(t, err)
	for _, p := range generatedParts() {
		want, err := document.Replace(string(text), p.name, p.text)
		require.NoError(t, err)
		require.Equal(t, want, string(text), "run go generate ./plugins/inputs/rdma_events")
	}
}
