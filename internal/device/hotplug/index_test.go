package hotplug

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/sys/netlink"
)

func deviceBody(name string, index uint32) []byte {
	body := netlink.Attribute(nil, nldevDevIndex, netlink.Word(index))
	body = netlink.Attribute(body, nldevDevName, netlink.Text(name))
	return netlink.Attribute(body, 6, []byte{1}) // an attribute of no interest
}

func TestARequestForANodeNamesTheDeviceAndTheClient(t *testing.T) {
	want := netlink.Attribute(nil, 1, []byte{17, 0, 0, 0})
	want = netlink.Attribute(want, 69, []byte("uverbs\x00"))
	require.Equal(t, want, nodeRequest(17))
}

func TestDevicesAreFoundByTheirNames(t *testing.T) {
	indexes := map[string]int{}
	require.NoError(t, parseDevice(deviceBody("mlx5_0", 0), indexes))
	require.NoError(t, parseDevice(deviceBody("rxe0", 17), indexes))
	require.Equal(t, map[string]int{"mlx5_0": 0, "rxe0": 17}, indexes)
}

func TestADeviceWithoutNameOrIndexIsLeftOut(t *testing.T) {
	indexes := map[string]int{}
	require.NoError(t, parseDevice(netlink.Attribute(nil, nldevDevIndex, netlink.Word(3)), indexes))
	require.NoError(t, parseDevice(netlink.Attribute(nil, nldevDevName, netlink.Text("rxe0")), indexes))
	require.Empty(t, indexes)
}

func TestADeviceThatIsCutOffIsAnError(t *testing.T) {
	indexes := map[string]int{}
	whole := deviceBody("rxe0", 17)
	require.Error(t, parseDevice(whole[:len(whole)-5], indexes))
	require.Empty(t, indexes)
}

func FuzzDevicesAreReadOrRefused(f *testing.F) {
	f.Add(deviceBody("mlx5_0", 0))
	f.Add([]byte{4, 0, 2, 0, 3, 0, 1, 0})
	f.Fuzz(func(t *testing.T, body []byte) {
		indexes := map[string]int{}
		_ = parseDevice(body, indexes) // must neither panic nor hang
		for name, index := range indexes {
			require.NotEmpty(t, name)
			require.GreaterOrEqual(t, index, 0)
		}
	})
}
