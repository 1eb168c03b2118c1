package rdma_events

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheReadmeShowsTheSampleConfiguration(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(readme), "## Configuration\n\n```toml @sample.conf\n")
	require.True(t, found)
	block, _, found := strings.Cut(after, "```\n")
	require.True(t, found)
	require.Equal(t, sampleConfig, block)
}
