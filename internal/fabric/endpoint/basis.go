package endpoint

import (
	"net/netip"
	"slices"

	"rdma_events/internal/device/session"
	"rdma_events/internal/device/verbs"
)

// basis is what is known of a port when its Fabric is made, and has been seen since.
type basis struct {
	pkeys uint64            // changes of its P_Keys
	gids  *[]verbs.GID      // the newest reading of its GID table that was looked at; nil: none was
	kinds [gidIPv6 + 1]bool // of the GIDs of RoCE v2 in those that were looked at
}

func basisOf(port session.PortInfo) basis {
	b := basis{pkeys: port.PKeyEvents, gids: port.GIDs}
	if b.gids != nil {
		b.reachesMore(*b.gids)
	}
	return b
}

// whyInactive returns why a port in a state can have no Fabric now, "" if it can.
func whyInactive(state verbs.PortState) string {
	switch state {
	case verbs.PortActive:
		return ""
	case verbs.PortNop:
		return "the state of the port is not known"
	default:
		return "the port is " + state.String()
	}
}

// outdated returns why the Fabric is not that of the port any more, "" if it is.
func (f *fabric) outdated() string {
	port := f.s.Port(f.port)
	if why := whyInactive(port.State); why != "" {
		return why
	}
	switch {
	case port.PKeyEvents != f.basis.pkeys:
		return "the P_Keys of the port have changed"
	case f.at.LinkLayer == verbs.LinkInfiniBand && port.LID != f.at.LID:
		return "the LID of the port has changed"
	}
	if port.GIDs != f.basis.gids { // one from before the Fabric does not say what it was made of
		return f.moved(port.GIDs)
	}
	return ""
}

// moved returns why a newer GID table is not that of the Fabric. The address handles of its pairs hold entries of the table: a
// GID that is removed and added again would come back at another index while the Fabric is open.
func (f *fabric) moved(table *[]verbs.GID) string {
	first := f.basis.gids == nil
	f.basis.gids = table
	more := f.basis.reachesMore(*table) && !first
	switch {
	case !hasGIDs(*table, f.at.GIDs):
		return "a GID of the port has changed"
	case more && f.at.LinkLayer == verbs.LinkEthernet && f.s.Options().Fabric.GIDIndex < 0:
		return "the port has another kind of GID"
	}
	return ""
}

// hasGIDs reports whether a table has all announced GIDs where they were.
func hasGIDs(table []verbs.GID, announced []verbs.FabricGID) bool {
	return !slices.ContainsFunc(announced, func(a verbs.FabricGID) bool {
		return !slices.ContainsFunc(table, func(g verbs.GID) bool { return g.Index == a.Index && g.Raw == a.Raw })
	})
}

// gidKind is what decides whether two GIDs of RoCE v2 reach each other, as far as the addresses say.
type gidKind int

const (
	gidLocal gidKind = iota // reaches no further than the link
	gidIPv4
	gidIPv6
)

func kindOf(raw [16]byte) gidKind {
	switch a := netip.AddrFrom16(raw); {
	case a.IsLinkLocalUnicast():
		return gidLocal
	case a.Is4In6():
		return gidIPv4
	}
	return gidIPv6
}

// reachesMore notes the kinds of GIDs in a table, and reports whether one is new that reaches further than the link: that of
// an interface that got its first address after the port had become active. One more of a kind changes nothing, and where
// containers come and go there are many of these.
func (b *basis) reachesMore(table []verbs.GID) (more bool) {
	for _, g := range table {
		if kind := kindOf(g.Raw); g.Type == verbs.GIDRoCEv2 && !b.kinds[kind] {
			b.kinds[kind] = true
			more = more || kind != gidLocal
		}
	}
	return more
}
