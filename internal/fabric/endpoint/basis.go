package endpoint

import (
	"net/netip"
	"slices"

	"rdma_events/internal/device/session"
	"rdma_events/internal/device/verbs"
)

// portAttrs has the attributes of a port from which its Fabric was built, updated by later readings of the GID table.
type portAttrs struct {
	pkeys uint64            // number of changes of the P_Keys
	gids  *[]verbs.GID      // the last evaluated reading of the GID table; nil: none
	kinds [gidIPv6 + 1]bool // the kinds of RoCE v2 GIDs in all evaluated readings
}

func attrsOf(port session.PortInfo) portAttrs {
	b := portAttrs{pkeys: port.PKeyEvents, gids: port.GIDs}
	if b.gids != nil {
		b.addKinds(*b.gids)
	}
	return b
}

// whyInactive returns why a port in a state cannot have a Fabric now, or "" if it can.
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

// whyOutdated returns why the Fabric no longer matches the port, or "" if it does.
func (f *portFabric) whyOutdated() string {
	port := f.s.Port(f.port)
	if why := whyInactive(port.State); why != "" {
		return why
	}
	switch {
	case port.PKeyEvents != f.builtFrom.pkeys:
		return "the P_Keys of the port have changed"
	case f.description.LinkLayer == verbs.LinkInfiniBand && port.LID != f.description.LID:
		return "the LID of the port has changed"
	}
	if port.GIDs != f.builtFrom.gids { // a reading from before the Fabric was built is not evidence
		return f.whyGIDsOutdated(port.GIDs)
	}
	return ""
}

// whyGIDsOutdated returns why the Fabric does not match a newer reading of the GID table, or "" if it does. The address handles of its
// pairs refer to entries of the table: while the Fabric is open, a GID that is removed and added again gets another index.
func (f *portFabric) whyGIDsOutdated(table *[]verbs.GID) string {
	first := f.builtFrom.gids == nil
	f.builtFrom.gids = table
	more := f.builtFrom.addKinds(*table) && !first
	switch {
	case !hasGIDs(*table, f.description.GIDs):
		return "a GID of the port has changed"
	case more && f.description.LinkLayer == verbs.LinkEthernet && f.s.Options().Fabric.GIDIndex < 0:
		return "the port has another kind of GID"
	}
	return ""
}

// hasGIDs reports whether a table has all announced GIDs at the same indexes.
func hasGIDs(table []verbs.GID, announced []verbs.FabricGID) bool {
	return !slices.ContainsFunc(announced, func(a verbs.FabricGID) bool {
		return !slices.ContainsFunc(table, func(g verbs.GID) bool { return g.Index == a.Index && g.Raw == a.Raw })
	})
}

// gidKind classifies RoCE v2 GIDs. Two GIDs can reach each other only if they are of the same kind.
type gidKind int

const (
	gidLocal gidKind = iota // link-local
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

// addKinds records the kinds of GIDs in a table, and reports whether there is a new kind that is not link-local. That happens when an
// interface gets its first address after the port became active. Another GID of a known kind does not matter, and is frequent where
// containers start and stop.
func (b *portAttrs) addKinds(table []verbs.GID) (more bool) {
	for _, g := range table {
		if kind := kindOf(g.Raw); g.Type == verbs.GIDRoCEv2 && !b.kinds[kind] {
			b.kinds[kind] = true
			more = more || kind != gidLocal
		}
	}
	return more
}
