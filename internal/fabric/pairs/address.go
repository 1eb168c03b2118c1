package pairs

import (
	"bytes"
	"cmp"
	"math/bits"
	"net/netip"
)

// commonGID chooses the GIDs by which a port that probes and one that answers reach each other. Both have the kind of the first
// of from, the best first, that is in to as well; routable ones go with routable ones. Of several it chooses the two that share the
// longest prefix: addresses of different networks may not reach each other, and hosts may list them in different orders. Addresses
// that share networkBits count as of one network, in which the first ones are preferred. commonGID returns their indexes, and
// false if there are none. Both sides come to the same result. So does the pair in the other direction if all GIDs are of one kind.
func commonGID(from, to [][16]byte) (i, k int, ok bool) {
	var best route
	for fi, f := range from {
		if ok && kindOf(f) != kindOf(from[i]) {
			continue
		}
		for ti, t := range to {
			if kindOf(f) != kindOf(t) {
				continue
			}
			if r := newRoute(f, t, fi+ti); !ok || r.isBetter(best) {
				best, i, k, ok = r, fi, ti, true
			}
		}
	}
	return i, k, ok
}

// route has what decides between two pairs of GIDs. It is the same from both ends.
type route struct {
	shared int      // leading bits, at most networkBits
	place  int      // the sum of the places in both lists
	lower  [16]byte // of the two
}

func newRoute(a, b [16]byte, place int) route {
	r := route{min(commonBits(a, b), networkBits(a)), place, a}
	if bytes.Compare(b[:], a[:]) < 0 {
		r.lower = b
	}
	return r
}

func (r route) isBetter(o route) bool {
	return cmp.Or(r.shared-o.shared, o.place-r.place, bytes.Compare(o.lower[:], r.lower[:])) > 0
}

// networkBits returns how many leading bits two GIDs of one network are assumed to share, since a GID has no prefix length:
// those of a /64, or of a /24 of IPv4.
func networkBits(gid [16]byte) int {
	if netip.AddrFrom16(gid).Is4In6() {
		return 96 + 24
	}
	return 64
}

// commonBits returns the number of leading bits that a and b share.
func commonBits(a, b [16]byte) int {
	for i := range a {
		if x := a[i] ^ b[i]; x != 0 {
			return 8*i + bits.LeadingZeros8(x)
		}
	}
	return 8 * len(a)
}

// areOfOneKind reports whether two GIDs have the same family and reach equally far, the link alone or beyond it.
func areOfOneKind(a, b [16]byte) bool { return kindOf(a) == kindOf(b) }

type gidKind struct{ v4, local bool }

func kindOf(gid [16]byte) gidKind {
	a := netip.AddrFrom16(gid)
	return gidKind{v4: a.Is4In6(), local: a.IsLinkLocalUnicast() || a.Unmap().IsLinkLocalUnicast()}
}

// areInOneSubnet reports whether two GIDs of InfiniBand have the same subnet prefix, their first 64 bits.
func areInOneSubnet(a, b [16]byte) bool { return [8]byte(a[:8]) == [8]byte(b[:8]) }

// matchingPKeys reports whether ports with these P_Keys reach each other: they are of the same partition, and one of them is a
// full member (InfiniBand specification, 10.9.3).
func matchingPKeys(a, b uint16) bool { return a&0x7fff == b&0x7fff && (a|b)&0x8000 != 0 }
