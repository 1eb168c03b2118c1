package cause

import (
	"time"

	"rdma_events/internal/device/verbs"
)

// Facts holds the facts about a port at a trigger: an event, a change of the port's state, or
// another reason to read them. The zero value of each field means that the fact is unknown.
type Facts struct {
	// Trigger is the reason for which the other facts were read.
	Trigger verbs.Trigger
	// LinkLayer decides which facts concern the port: the network device of an InfiniBand
	// port (IPoIB) can be down while the port is active, and only InfiniBand has a subnet
	// manager.
	LinkLayer verbs.LinkLayer
	// Before and After are the port's states before and after the trigger. They are equal
	// if the trigger did not change the state.
	Before, After verbs.PortState
	NetDev        NetDev
	ExtState      ExtState
	Removed       Moment // the kernel's uevent about the removal of the device
	Fatal         Moment // the last device_fatal
	Stuck         Moment // the last moment at which a command of the device was known to be stuck
	Answered      bool   // the device answered a command after the trigger
	// Late is set if the trigger may have happened long before it was read. The other facts then
	// show a later state.
	Late  bool
	GIDs  GIDs
	SMLID SMLID
}

// Moment is the time of a fact relative to the trigger. The zero value belongs to an unknown fact.
type Moment struct {
	Known bool
	Since time.Duration // from the trigger to the fact; negative: the fact came before the trigger
}

// MomentAfter returns the Moment since after the trigger, or before it if since is negative.
func MomentAfter(since time.Duration) Moment { return Moment{Known: true, Since: since} }

// within reports whether the fact is known and lies at most before before and after after the trigger.
func (a Moment) within(before, after time.Duration) bool {
	return a.Known && -before <= a.Since && a.Since <= after
}

// Flag is a fact that is true, false or unknown.
type Flag uint8

// The flags.
const (
	Unknown Flag = iota
	No
	Yes
)

// FlagOf returns Yes or No.
func FlagOf(b bool) Flag {
	if b {
		return Yes
	}
	return No
}

// NetDev is the state of the port's network device in /sys/class/net. It is unknown if the
// device is in another network namespace.
type NetDev struct {
	Moment
	AdminUp Flag // IFF_UP
	Carrier Flag // unknown while the device is administratively down: the kernel answers EINVAL
}

// ExtState is the reason for a missing link that the driver of the port's network device
// reports, in the words of package ethtool; "" if it reports none.
type ExtState struct {
	Moment
	Name string
}

// GIDs holds the changes of the port's GID table.
type GIDs struct {
	Moment
	changed    int         // GIDs that came, went or moved
	gone, came []verbs.GID // the default GIDs among them
}

// Add adds a change of a GID. from is the index at which the GID was, -1 if it was not in the table.
func (g *GIDs) Add(a verbs.GIDAction, gid verbs.GID, from int) {
	g.changed++
	switch {
	case !isDefaultGID(&gid):
	case a == verbs.GIDRemoved:
		g.gone = append(g.gone, gid)
	default:
		if a == verbs.GIDMoved && from == defaultIndex {
			g.gone = append(g.gone, gid)
		}
		g.came = append(g.came, gid)
	}
}

// defaultIndex is the index at which the kernel keeps a default GID, and nothing else
// (gid_table_reserve_default in drivers/infiniband/core/cache.c). A GID that moves from there is
// no default GID any more: after a change of the MAC address it still belongs to the link-local
// IPv6 address, which the kernel made from the old MAC address.
const defaultIndex = 0

// isDefaultGID reports whether the kernel made a GID from a MAC address: it has the link-local
// prefix and an EUI-64 (make_default_gid in drivers/infiniband/core/roce_gid_mgmt.c).
func isDefaultGID(g *verbs.GID) bool {
	return g.IsLinkLocal() && g.Raw[11] == 0xff && g.Raw[12] == 0xfe
}

// hasReplacedDefault reports whether a network device has another default GID than before. A
// default GID that only came may belong to a new VLAN.
func (g *GIDs) hasReplacedDefault() bool {
	for _, a := range g.gone {
		for _, b := range g.came {
			if a.NetDev == b.NetDev && a.Raw != b.Raw {
				return true
			}
		}
	}
	return false
}

// SMLID has the LID of the port's subnet manager before and after a change.
type SMLID struct {
	Moment
	From, To int
}
