package verbs

import (
	"net/netip"
	"strconv"
)

// GIDType is the type of a GID, enum ibv_gid_type (infiniband/verbs.h). On RoCE the table
// has an entry for each version of RoCE with the same address.
type GIDType uint8

// The types of GID.
const (
	GIDInfiniBand GIDType = iota
	GIDRoCEv1
	GIDRoCEv2
)

// String returns "ib", "roce_v1" or "roce_v2".
func (t GIDType) String() string {
	switch t {
	case GIDInfiniBand:
		return "ib"
	case GIDRoCEv1:
		return "roce_v1"
	case GIDRoCEv2:
		return "roce_v2"
	}
	return "unknown_" + strconv.Itoa(int(t))
}

// GID is one filled entry of a port's GID table.
type GID struct {
	Index  int
	Raw    [16]byte // union ibv_gid
	Type   GIDType
	NetDev string // name of the network device, also of one in another network namespace; "" if none
	// OtherNetns is set if the network device is in another network namespace. An example is the macvlan device of a pod on
	// top of the port's network device.
	OtherNetns bool
}

// String returns the GID in the notation of an IPv6 address. An IPv4 address of RoCE is
// written as in "::ffff:10.4.0.1".
func (g GID) String() string { return netip.AddrFrom16(g.Raw).String() }

// IsLinkLocal reports whether the GID begins with fe80::/10. The default GIDs of a port do;
// they stand for no address of the host.
func (g GID) IsLinkLocal() bool { return netip.AddrFrom16(g.Raw).IsLinkLocalUnicast() }

// GIDAction is the change of a GID between two readings of its table.
type GIDAction string

// The actions. A GID that comes back is GIDReturned at its old index, and GIDMoved at another.
const (
	GIDAdded    GIDAction = "added"
	GIDRemoved  GIDAction = "removed"
	GIDMoved    GIDAction = "moved"
	GIDReturned GIDAction = "returned"
)

// GIDTable is one reading of a port's GID table. The first GIDTable of a port after Opened
// is its baseline.
type GIDTable struct {
	Port    int
	Mono    int64 // CLOCK_MONOTONIC ns, before the reading
	Entries []GID // in the order of their indexes
	Probed  []int // indexes of the source GIDs of the port's open probes
}
