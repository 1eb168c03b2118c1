package pairs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

func TestPortForManagementHasItsRole(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, _ *net, h []*node) {
		require.Empty(t, h[0].port().Role)
		h[0].k.PortRole("d0", 1, verbs.RoleManagement)
		h[0].k.PortRole("d9", 1, verbs.RoleManagement) // no such port
		require.Equal(t, verbs.RoleManagement, h[0].port().Role)
	})
}
