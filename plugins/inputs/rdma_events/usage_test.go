package rdma_events

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/clock"
)

func TestOwnUsageIsRead(t *testing.T) {
	u := usage(clock.Boot() - int64(time.Hour))
	require.GreaterOrEqual(t, u.Uptime, int64(time.Hour))
	require.Less(t, u.Uptime, int64(2*time.Hour))
	require.Positive(t, u.CPU)
	require.Greater(t, u.RSS, int64(1<<20))
}

func TestResidentBytesIsTheSecondNumber(t *testing.T) {
	n, err := residentBytes([]byte("5000 321 100 1 0 2000 0\n"), 4096)
	require.NoError(t, err)
	require.Equal(t, int64(321*4096), n)
	for _, bad := range []string{"", "5000", "5000 x"} {
		_, err := residentBytes([]byte(bad), 4096)
		require.Error(t, err)
	}
}
