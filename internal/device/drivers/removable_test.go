package drivers

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReleaseIsParsed(t *testing.T) {
	for text, want := range map[string]Release{
		"6.1.0-37-amd64": {6, 1}, "6.12.57+deb13-amd64": {6, 12}, "7.3-rc1": {7, 3}, "6": {}, "": {}, "next": {},
	} {
		require.Equal(t, want, ParseRelease(text), text)
	}
	require.True(t, Release{6, 1}.Before(Release{6, 12}))
	require.False(t, Release{7, 0}.Before(Release{6, 12}))
	require.True(t, Release{}.Before(Release{6, 1}))
}

// ib_uverbs takes a reference to the module of a driver without disassociate_ucontext (ib_uverbs_open in
// drivers/infiniband/core/uverbs_main.c).
func TestOldDriversAreNotUnloadedBesideAnOpenDevice(t *testing.T) {
	for _, c := range []struct {
		kernel string
		in     Release
		want   Unloading
	}{
		{"rdma_rxe", Release{6, 1}, UnloadRefused},
		{"rdma_rxe", Release{6, 12}, UnloadRefused},
		{"rdma_rxe", Release{7, 3}, UnloadWorks},
		{"siw", Release{7, 3}, UnloadRefused},
		{"efa", Release{7, 3}, UnloadRefused},
		{"qede", Release{7, 3}, UnloadRefused},
		{"cxgb4", Release{7, 3}, UnloadRefused},
		{"hfi1", Release{7, 3}, UnloadRefused},
		{"ib_mthca", Release{7, 3}, UnloadRefused},
		{"vmw_pvrdma", Release{7, 3}, UnloadRefused},
		{"bnxt_en", Release{6, 1}, UnloadRefused},
		{"bnxt_en", Release{6, 12}, UnloadWorks},
		{"erdma", Release{6, 1}, UnloadRefused},
		{"mana", Release{6, 12}, UnloadWorks},
		{"mlx5_core", Release{6, 1}, UnloadWorks},
		{"ice", Release{6, 1}, UnloadWorks},
		{"mlx5_core", Release{}, UnloadRefused},
		{"a driver of tomorrow", Release{7, 3}, UnloadUnknown},
	} {
		require.Equal(t, c.want, Unload(c.kernel, c.in), c)
	}
}
