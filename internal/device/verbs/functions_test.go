package verbs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFunctionIsWatchedWithoutItsPhysicalFunction(t *testing.T) {
	physical := Found{Name: "mlx5_0", PCI: "0000:3b:00.0"}
	virtual := Found{Name: "mlx5_4", PCI: "0000:3b:00.2", VirtualFunction: true, Parent: physical.PCI}
	second := Found{Name: "mlx5_5", PCI: "0000:3b:08.2", VirtualFunction: true, Parent: "0000:3b:00.1"}
	bonded := second
	bonded.ParentNetDev = true
	scalable := Found{Name: "mlx5_6", VirtualFunction: true, Scalable: true, Parent: physical.PCI}
	unknown := Found{Name: "mlx5_7", VirtualFunction: true}
	other := Found{Name: "mlx5_8", PCI: "0000:5e:00.0"}
	for name, row := range map[string]struct {
		f    Found
		here []Found
		want bool
	}{
		"a physical function":                           {physical, []Found{virtual}, true},
		"nothing else is visible":                       {virtual, nil, true},
		"other virtual functions":                       {virtual, []Found{second, scalable}, true},
		"the physical function of another card":         {virtual, []Found{other}, true},
		"a soft device":                                 {virtual, []Found{{Name: "rxe0"}}, true},
		"its own":                                       {virtual, []Found{other, physical}, false},
		"a scalable one, nothing else is visible":       {scalable, []Found{virtual}, true},
		"a scalable one and its own":                    {scalable, []Found{physical}, false},
		"another port's, and its own is elsewhere":      {second, []Found{physical}, true},
		"another port's, which has the device of a LAG": {bonded, []Found{physical}, false},
		"another card's, and its own has a netdev":      {bonded, []Found{other}, true},
		"unknown, and one that may be its own":          {unknown, []Found{other}, false},
		"unknown, and nothing else is visible":          {unknown, []Found{virtual}, true},
	} {
		here := append([]Found{row.f}, row.here...)
		require.Equal(t, row.want, VirtualAlone.Watches(row.f, here), name)
		require.True(t, VirtualAll.Watches(row.f, here), name)
		require.Equal(t, !row.f.VirtualFunction, VirtualNone.Watches(row.f, here), name)
	}
}
