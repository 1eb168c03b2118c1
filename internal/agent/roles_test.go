package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

func TestRoleIsThatOfTheFirstListWithThePort(t *testing.T) {
	c := RolesConfig{Compute: []string{"mlx5_[0-3]"}, Storage: []string{"mlx5_4", "mlx5_5:1"}, Management: []string{"mlx5_*:2", "bnxt_re0"}}
	for _, row := range []struct {
		device string
		port   int
		want   string
	}{
		{"mlx5_0", 1, verbs.RoleCompute}, {"mlx5_3", 2, verbs.RoleCompute}, {"mlx5_4", 2, verbs.RoleStorage}, {"mlx5_5", 1, verbs.RoleStorage},
		{"mlx5_5", 2, verbs.RoleManagement}, {"bnxt_re0", 1, verbs.RoleManagement}, {"mlx5_9", 1, ""}, {"bnxt_re1", 1, ""},
	} {
		require.Equal(t, row.want, c.Role(row.device, row.port), "%s:%d", row.device, row.port)
	}
}

func TestRolesAreGlobsWithOrWithoutAPort(t *testing.T) {
	for _, good := range []string{"mlx5_0", "mlx5_[0-7]", "mlx5_*:2", "ib{0,1}:255"} {
		require.True(t, isPortGlob(good), good)
	}
	for _, bad := range []string{"", ":1", "mlx5_0:", "mlx5_0:0", "mlx5_0:256", "mlx5_0:x", "mlx5_[", "mlx5"} {
		require.False(t, isPortGlob(bad), bad)
	}
}

func TestRoleOfADeviceThatIsNotHereIsOdd(t *testing.T) {
	c := DefaultConfig()
	c.Roles = RolesConfig{Compute: []string{"mlx5_*", "*"}, Storage: []string{"nvme_*:1"}}
	require.Equal(t, []string{`roles.storage: "nvme_*:1" matches no device that is here now`}, c.Mismatches([]verbs.Found{{Name: "mlx5_0"}}))
}
