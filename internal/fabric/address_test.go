package fabric

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func gids(text ...string) (all [][16]byte) {
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
		{"IPv4 of both", gids("10.0.0.1", "fe80::1"), gids("10.0.0.2", "fe80::2"), 0, 0, true},
		{"IPv6, since one has no IPv4", gids("10.0.0.1", "2001:db8::1"), gids("2001:db8::2"), 1, 0, true},
		{"link local as the last", gids("10.0.0.1", "fe80::1"), gids("2001:db8::2", "fe80::2"), 1, 1, true},
		{"the prober's order counts", gids("2001:db8::1", "10.0.0.1"), gids("10.0.0.2", "2001:db8::2"), 0, 1, true},
		{"IPv4 does not reach IPv6", gids("10.0.0.1"), gids("2001:db8::2"), 0, 0, false},
		{"a routable GID does not reach a link-local one", gids("2001:db8::1"), gids("fe80::2"), 0, 0, false},
		{"none", nil, gids("10.0.0.2"), 0, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			i, k, ok := CommonGID(c.from, c.to)
			require.Equal(t, []any{c.i, c.k, c.ok}, []any{i, k, ok})
		})
	}
}

func TestPartitionsMeetThroughAFullMember(t *testing.T) {
	require.True(t, MatchingPKeys(0xffff, 0xffff))
	require.True(t, MatchingPKeys(0xffff, 0x7fff))
	require.False(t, MatchingPKeys(0x7fff, 0x7fff))
	require.False(t, MatchingPKeys(0x8001, 0x8002))
}

func TestSubnetsAreTheFirstHalfOfAGID(t *testing.T) {
	g := gids("fe80::1", "fe80::2", "fe80:0:0:1::1")
	require.True(t, SameSubnet(g[0], g[1]))
	require.False(t, SameSubnet(g[0], g[2]))
}
