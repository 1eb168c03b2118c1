package pairs

import (
	"bytes"
	"cmp"
	"math/bits"
	"net/netip"
)

// commonGID chooses the GIDs by which the requester's port and the responder's port reach each other. from has the GIDs of the requester in
// order of preference, to those of the responder. Both chosen GIDs are of one kind, the first kind in from that to has as well. Among GIDs
// of this kind, commonGID chooses the two that share the longest prefix, since GIDs of different networks may not reach each other and
// hosts may list their GIDs in different orders. GIDs that share networkBits bits count as being in one network, where the first ones are
// preferred.
//
// commonGID returns the indexes of the GIDs, or false if there are none. Both hosts compute the same result. The pair in the other
// direction uses the same GIDs if all GIDs are of one kind.
func commonGID(from, to [][16]byte) (i, k int, ok bool) {
	var best gidMatch
	for fi, f := range from {
		if ok && kindOf(f) != kindOf(from[i]) {
			continue
		}
		for ti, t := range to {
			if kindOf(f) != kindOf(t) {
				continue
			}
			if r := newGIDMatch(f, t, fi+ti); !ok || r.isBetter(best) {
				best, i, k, ok = r, fi, ti, true
			}
		}
	}
	return i, k, ok
}

// gidMatch has the criteria by which two pairs of GIDs are compared. Both hosts compute the same values.
type gidMatch struct {
	shared int      // number of common leading bits, at most networkBits
	place  int      // sum of the indexes in both lists
	lower  [16]byte // the lower one of the two GIDs
}

func newGIDMatch(a, b [16]byte, place int) gidMatch {
	r := gidMatch{min(commonBits(a, b), networkBits(a)), place, a}
	if bytes.Compare(b[:], a[:]) < 0 {
		r.lower = b
	}
	return r
}

func (r gidMatch) isBetter(o gidMatch) bool {
	return cmp.Or(r.shared-o.shared, o.place-r.place, bytes.Compare(o.lower[:], r.lower[:])) > 0
}

// networkBits returns the prefix length that is assumed for the network of a GID, since a GID has none of its own: /64, or /24 for IPv4.
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

// areOfOneKind reports whether two GIDs have the same address family and the same scope, link-local or routable.
func areOfOneKind(a, b [16]byte) bool { return kindOf(a) == kindOf(b) }

type gidKind struct{ v4, local bool }

func kindOf(gid [16]byte) gidKind {
	a := netip.AddrFrom16(gid)
	return gidKind{v4: a.Is4In6(), local: a.IsLinkLocalUnicast() || a.Unmap().IsLinkLocalUnicast()}
}

// areInOneSubnet reports whether two InfiniBand GIDs have the same subnet prefix, which is the first 64 bits.
func areInOneSubnet(a, b [16]byte) bool { return [8]byte(a[:8]) == [8]byte(b[:8]) }

// matchingPKeys reports whether ports with these P_Keys can communicate: both are in the same partition, and at least one of them is a full
// member (InfiniBand specification, 10.9.3).
func matchingPKeys(a, b uint16) bool { return a&0x7fff == b&0x7fff && (a|b)&0x8000 != 0 }
