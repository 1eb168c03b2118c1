package verbs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCompletionStatusNames(t *testing.T) {
	require.Equal(t, "wr_flush_err", CompletionStatus(5))
	require.Equal(t, "retry_exc_err", CompletionStatus(12))
	require.Equal(t, "tm_rndv_incomplete", CompletionStatus(23))
	require.Equal(t, "unknown_24", CompletionStatus(24))
	for i := range completionStatuses {
		status, ok := ParseCompletionStatus(CompletionStatus(i))
		require.True(t, ok)
		require.Equal(t, i, status)
	}
	_, ok := ParseCompletionStatus("unknown_24")
	require.False(t, ok)
}
