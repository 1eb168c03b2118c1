package fabric

import "net/netip"

// CommonGID chooses the GIDs by which a port that probes and one that answers reach each other: the first of from, the best
// first, that has the family of one of to; routable ones go with routable ones. It returns their indexes, and false if there
// are none. Both sides come to the same result.
func CommonGID(from, to [][16]byte) (i, k int, ok bool) {
	for i, f := range from {
		for k, t := range to {
			if kindOf(f) == kindOf(t) {
				return i, k, true
			}
		}
	}
	return 0, 0, false
}

type gidKind struct{ v4, local bool }

func kindOf(gid [16]byte) gidKind {
	a := netip.AddrFrom16(gid)
	return gidKind{v4: a.Is4In6(), local: a.IsLinkLocalUnicast() || a.Unmap().IsLinkLocalUnicast()}
}

// SameSubnet reports whether two GIDs of InfiniBand have the same subnet prefix, their first 64 bits.
func SameSubnet(a, b [16]byte) bool { return [8]byte(a[:8]) == [8]byte(b[:8]) }

// MatchingPKeys reports whether ports with these P_Keys reach each other: they are of the same partition, and one of them is a
// full member (InfiniBand specification, 10.9.3).
func MatchingPKeys(a, b uint16) bool { return a&0x7fff == b&0x7fff && (a|b)&0x8000 != 0 }
