package rdma_events

import (
	"testing"

	"github.com/influxdata/telegraf/config"
	"github.com/stretchr/testify/require"

	"rdma_events/internal/agent"
)

// Durations have the same format as Telegraf's own options.
func TestDurationsAreThoseOfTelegraf(t *testing.T) {
	for _, text := range []string{
		"", "0", "3", "-3", "3.5", "10s", "1m30s", "250us", "1d", "1.5d", "2d12h", "1d1d", "-1d", "10", "s", "1 s", "five", "1w", "'3s'", "1e3",
	} {
		var own agent.Duration
		var theirs config.Duration
		err, want := own.UnmarshalText([]byte(text)), theirs.UnmarshalText([]byte(text))
		require.Equal(t, want != nil, err != nil, "%q: %v, %v", text, err, want)
		require.EqualValues(t, theirs, own, "%q", text)
	}
}
