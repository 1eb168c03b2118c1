package pairs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

func TestPortForManagementHasItsRole(t *testing.T) {
	runInBubble(t, 2, 2, func(t *testing.T, _ *fakeNetwork, h []*fakeHost) {
		require.Empty(t, h[0].portPoint().Role)
		h[0].k.SetPortRole("d0", 1, verbs.RoleManagement)
		h[0].k.SetPortRole("d9", 1, verbs.RoleManagement) // no such port
		require.Equal(t, verbs.RoleManagement, h[0].portPoint().Role)
	})
}
