package pairs

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func parseGIDs(text ...string) (all [][16]byte) {
	for _, t := range text {
		all = append(all, netip.MustParseAddr(t).As16())
	}
	return all
}

func TestPortsMeetByGIDsOfOneKind(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to [][16]byte
		i, k     int
		ok       bool
	}{
		{"IPv4 of both", parseGIDs("10.0.0.1", "fe80::1"), parseGIDs("10.0.0.2", "fe80::2"), 0, 0, true},
		{"IPv6, since one has no IPv4", parseGIDs("10.0.0.1", "2001:db8::1"), parseGIDs("2001:db8::2"), 1, 0, true},
		{"link local as the last", parseGIDs("10.0.0.1", "fe80::1"), parseGIDs("2001:db8::2", "fe80::2"), 1, 1, true},
		{"the prober's order counts", parseGIDs("2001:db8::1", "10.0.0.1"), parseGIDs("10.0.0.2", "2001:db8::2"), 0, 1, true},
		{"IPv4 does not reach IPv6", parseGIDs("10.0.0.1"), parseGIDs("2001:db8::2"), 0, 0, false},
		{"a routable GID does not reach a link-local one", parseGIDs("2001:db8::1"), parseGIDs("fe80::2"), 0, 0, false},
		{"none", nil, parseGIDs("10.0.0.2"), 0, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			i, k, ok := commonGID(c.from, c.to)
			require.Equal(t, []any{c.i, c.k, c.ok}, []any{i, k, ok})
		})
	}
}

func TestPortsMeetInOneNetworkWhateverTheOrder(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to [][16]byte
		i, k     int
	}{
		{"the same order", parseGIDs("10.0.0.1", "192.168.0.1"), parseGIDs("10.0.0.2", "192.168.0.2"), 0, 0},
		{"another order", parseGIDs("10.0.0.1", "192.168.0.1"), parseGIDs("192.168.0.2", "10.0.0.2"), 0, 1},
		{"another order, and longer prefixes by chance", parseGIDs("10.0.0.1", "192.168.0.1"), parseGIDs("192.168.0.2", "10.0.0.200"), 0, 1},
		{"adjacent networks", parseGIDs("192.168.1.1", "192.168.2.1"), parseGIDs("192.168.2.2", "192.168.1.2"), 0, 1},
		{"networks that are longer than a /24", parseGIDs("10.0.0.1", "10.0.8.1"), parseGIDs("10.0.9.5", "10.0.2.7"), 1, 0},
		{"one network of several is common", parseGIDs("10.0.1.1", "172.16.0.1"), parseGIDs("192.168.0.2", "172.16.0.2"), 1, 1},
		{"none is common, and they are routed", parseGIDs("10.0.1.1", "192.168.1.1"), parseGIDs("10.0.2.1", "172.16.2.1"), 0, 0},
		{"a second address of the network does not replace the first", parseGIDs("10.0.0.1", "10.0.0.100"), parseGIDs("10.0.0.101"), 0, 0},
		{"IPv6 too", parseGIDs("2001:db8:0:1::1", "2001:db8:0:2::1"), parseGIDs("2001:db8:0:2::2", "2001:db8:0:1::2"), 0, 1},
		{"the prefix does not outweigh the kind", parseGIDs("2001:db8:1::1", "10.0.0.1"), parseGIDs("10.0.0.2", "2001:db8:2::2"), 0, 1},
		{"link-local addresses are of one network", parseGIDs("fe80::1", "fe80::2"), parseGIDs("fe80::2:1", "fe80::3"), 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			i, k, ok := commonGID(c.from, c.to)
			require.Equal(t, []any{c.i, c.k, true}, []any{i, k, ok})
		})
	}
}

// If all GIDs are of one kind, the pairs of both directions use the same GIDs.
func TestBothDirectionsChooseTheSameGIDs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	addresses := func() (all [][16]byte) {
		for range 1 + random.IntN(4) {
			all = append(all, netip.AddrFrom4([4]byte{10, byte(random.IntN(2)), byte(random.IntN(4)), byte(random.IntN(256))}).As16())
		}
		return all
	}
	for range 10_000 {
		from, to := addresses(), addresses()
		i, k, ok := commonGID(from, to)
		require.True(t, ok)
		ri, rk, ok := commonGID(to, from)
		require.True(t, ok)
		require.ElementsMatch(t, [][16]byte{from[i], to[k]}, [][16]byte{to[ri], from[rk]}, "%v %v", from, to)
		again, and, _ := commonGID(from, to)
		require.Equal(t, []int{i, k}, []int{again, and})
	}
}

func TestPartitionsMeetThroughAFullMember(t *testing.T) {
	require.True(t, matchingPKeys(0xffff, 0xffff))
	require.True(t, matchingPKeys(0xffff, 0x7fff))
	require.False(t, matchingPKeys(0x7fff, 0x7fff))
	require.False(t, matchingPKeys(0x8001, 0x8002))
}

func TestSubnetsAreTheFirstHalfOfAGID(t *testing.T) {
	g := parseGIDs("fe80::1", "fe80::2", "fe80:0:0:1::1")
	require.True(t, areInOneSubnet(g[0], g[1]))
	require.False(t, areInOneSubnet(g[0], g[2]))
}
