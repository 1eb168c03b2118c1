package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/sys/clock"
)

func TestOwnUsageIsRead(t *testing.T) {
	u := readUsage(clock.Boot() - int64(time.Hour))
	require.GreaterOrEqual(t, u.Uptime, int64(time.Hour))
	require.Less(t, u.Uptime, int64(2*time.Hour))
	require.Positive(t, u.CPU)
	require.Greater(t, u.RSS, int64(1<<20))
}
