package rdma_events

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/telemetry/measure"
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

func TestTheReadmeNamesEveryMeasurement(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for _, m := range measure.All() {
		require.Contains(t, string(readme), "- "+m.Name+":")
	}
}

func TestTheExampleOutputIsThatOfTheGoldenFile(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	golden, err := os.ReadFile("../../../internal/telemetry/measure/testdata/filled.influx")
	require.NoError(t, err)
	_, example, found := strings.Cut(string(readme), "## Example Output\n\n```text\n")
	require.True(t, found)
	example, _, found = strings.Cut(example, "```\n")
	require.True(t, found)
	require.NotEmpty(t, example)
	for line := range strings.Lines(example) {
		require.Contains(t, string(golden), line)
	}
}
