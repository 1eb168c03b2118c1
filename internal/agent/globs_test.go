package agent

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGlobsThatLeaveNothingAreFound(t *testing.T) {
	for _, tt := range []struct {
		globs, excluded []string
		want            bool
	}{
		{nil, []string{"*"}, true},
		{[]string{"*"}, []string{"**"}, true},
		{[]string{"mlx5_*"}, []string{"mlx5_*"}, true},
		{[]string{"mlx5_{0,1}"}, []string{"mlx5_{0,1}"}, true},
		{[]string{"mlx5_0", "mlx5_1"}, []string{"mlx5_*"}, true},
		{[]string{"mlx5_0", "rxe0"}, []string{"mlx5_*"}, false},
		{[]string{"*"}, []string{"?"}, false},
		{[]string{"*"}, []string{"mlx5_*"}, false},
		{[]string{"mlx5_*"}, []string{"mlx5_1*"}, false},
		{[]string{"{a,b}"}, []string{"*a*"}, false},
		{[]string{"[ab]"}, []string{"*a*"}, false},
	} {
		require.Equal(t, tt.want, excludesAll(tt.globs, tt.excluded), "%v without %v", tt.globs, tt.excluded)
	}
}

func TestNameThatAnAdministratorGaveIsAllowed(t *testing.T) {
	for _, name := range []string{"mlx5_0", "mlx5_bond_0", "rxe", "storage", "ibp8s0f0", "mlx5*"} {
		require.False(t, lacksIndex(name), name)
	}
	require.True(t, lacksIndex("mlx5"))
	require.True(t, lacksIndex("mlx5_"))
}
