//go:build linux && cgo

package native

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"rdma_events/internal/device/verbs"
)

func TestRoutableGIDsOfRoCEv2ComeFirst(t *testing.T) {
	table := []verbs.GID{
		newGID(0, "fe80::1", verbs.GIDRoCEv1), newGID(1, "fe80::1", verbs.GIDRoCEv2), newGID(2, "::ffff:10.0.0.1", verbs.GIDRoCEv1),
		newGID(3, "::ffff:10.0.0.1", verbs.GIDRoCEv2), newGID(5, "2001:db8::1", verbs.GIDRoCEv2),
	}
	require.Equal(t, []int{3, 5, 1}, gidIndexes(chooseFabricGIDs(table, -1, verbs.LinkEthernet)))
	require.Equal(t, []int{1}, gidIndexes(chooseFabricGIDs(table, 1, verbs.LinkEthernet)))
	require.Empty(t, chooseFabricGIDs(table, 2, verbs.LinkEthernet), "RoCE v1")
	require.Empty(t, chooseFabricGIDs(nil, -1, verbs.LinkEthernet))
	require.Len(t, table, 5, "it is left as it was")
	require.Equal(t, 0, table[0].Index)
}

func TestOfGIDsThatReachTheSameTheFirstAloneIsTaken(t *testing.T) {
	table := []verbs.GID{
		newGID(1, "fe80::1", verbs.GIDRoCEv2), newGID(3, "::ffff:10.0.0.1", verbs.GIDRoCEv2), newGID(5, "2001:db8::1", verbs.GIDRoCEv2),
		newGID(7, "fe80::2", verbs.GIDRoCEv2), newGID(9, "::ffff:10.0.0.9", verbs.GIDRoCEv2), newGID(11, "2001:db8::9", verbs.GIDRoCEv2),
	}
	require.Equal(t, []int{3, 5, 1}, gidIndexes(chooseFabricGIDs(table, -1, verbs.LinkEthernet)), "others are those of containers")
	require.Equal(t, []int{9}, gidIndexes(chooseFabricGIDs(table, 9, verbs.LinkEthernet)), "unless one is configured")
}

func TestGIDsOfEachNetworkOfOneInterfaceAreTaken(t *testing.T) {
	at := func(netdev string, g verbs.GID) verbs.GID {
		g.NetDev = netdev
		return g
	}
	table := []verbs.GID{
		at("eth0", newGID(1, "fe80::1", verbs.GIDRoCEv2)), at("eth0", newGID(3, "::ffff:10.0.0.1", verbs.GIDRoCEv2)),
		at("eth0", newGID(5, "::ffff:10.0.0.9", verbs.GIDRoCEv2)),    // of the same network
		at("eth0", newGID(7, "::ffff:192.168.0.1", verbs.GIDRoCEv2)), // another one
		at("macvlan0", newGID(9, "::ffff:172.16.0.1", verbs.GIDRoCEv2)), at("", newGID(11, "::ffff:172.17.0.1", verbs.GIDRoCEv2)),
		at("eth0", newGID(13, "2001:db8:0:1::1", verbs.GIDRoCEv2)), at("eth0", newGID(15, "2001:db8:0:1::2", verbs.GIDRoCEv2)),
		at("eth0", newGID(17, "2001:db8:0:2::1", verbs.GIDRoCEv2)), at("eth0", newGID(19, "fe80::2", verbs.GIDRoCEv2)),
	}
	require.Equal(t, []int{3, 7, 13, 17, 1}, gidIndexes(chooseFabricGIDs(table, -1, verbs.LinkEthernet)))
	table = nil
	for i := range 20 {
		table = append(table, at("eth0", newGID(i, fmt.Sprintf("::ffff:10.0.%d.1", i), verbs.GIDRoCEv2)))
	}
	require.Len(t, chooseFabricGIDs(table, -1, verbs.LinkEthernet), maxNetworks)
}

func TestOnInfiniBandTheFirstGIDIsTaken(t *testing.T) {
	table := []verbs.GID{newGID(0, "fe80::1", verbs.GIDInfiniBand), newGID(1, "fec0::1", verbs.GIDInfiniBand)}
	require.Equal(t, []int{0}, gidIndexes(chooseFabricGIDs(table, -1, verbs.LinkInfiniBand)))
	require.Equal(t, []int{1}, gidIndexes(chooseFabricGIDs(table, 1, verbs.LinkInfiniBand)))
	require.Empty(t, chooseFabricGIDs(table[1:], -1, verbs.LinkInfiniBand))
}

func newGID(index int, addr string, typ verbs.GIDType) verbs.GID {
	return verbs.GID{Index: index, Raw: netip.MustParseAddr(addr).As16(), Type: typ}
}

func gidIndexes(gids []verbs.FabricGID) (list []int) {
	for _, g := range gids {
		list = append(list, g.Index)
	}
	return list
}
