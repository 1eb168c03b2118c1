package cause

import (
	"time"

	"rdma_events/internal/device/verbs"
)

// Facts is what is known about a port at a trigger: an event, a change of its state, or
// another reason to ask. The zero value of each field means that it is not known.
type Facts struct {
	// Trigger is why the rest was read.
	Trigger verbs.Trigger
	// LinkLayer decides which facts concern the port: the network device of an InfiniBand
	// port (IPoIB) can be down while the port is active, and only InfiniBand has a subnet
	// manager.
	LinkLayer verbs.LinkLayer
	// Before and After are the port's states before the trigger and after it. They are equal
	// if the trigger did not concern the state.
	Before, After verbs.PortState
	NetDev        NetDev
	ExtState      ExtState
	Removed       At   // the kernel's uevent about the removal of the device
	Fatal         At   // the last device_fatal
	Stuck         At   // the last moment at which a command of the device was known to be stuck
	Answered      bool // the device answered a command after the trigger
	// Late is set if the trigger may have happened long before it was read. What was read after it then
	// shows a later state.
	Late  bool
	GIDs  GIDs
	SMLID SMLID
}

// At is the moment of a fact. The zero value is a fact that is not known.
type At struct {
	Known bool
	Since time.Duration // from the trigger to the fact; negative: the fact was before
}

// Seen returns the moment of a fact that was since after the trigger, or before it if negative.
func Seen(since time.Duration) At { return At{Known: true, Since: since} }

// within reports whether the fact is not further from the trigger than these.
func (a At) within(before, after time.Duration) bool {
	return a.Known && -before <= a.Since && a.Since <= after
}

// Flag is a fact that is true, false or not known.
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

// NetDev is what /sys/class/net has about the port's network device. It is not known if the
// device is in another network namespace.
type NetDev struct {
	At
	AdminUp Flag // IFF_UP
	Carrier Flag // not known while the device is administratively down: the kernel answers EINVAL
}

// ExtState is the reason for the missing link that the driver of the port's network device
// gives, in the words of package ethtool; "" if it gives none.
type ExtState struct {
	At
	Name string
}

// GIDs is what has changed in the port's GID table.
type GIDs struct {
	At
	changed    int         // GIDs that came, went or moved
	gone, came []verbs.GID // of these, default GIDs
}

// Add adds a change of a GID that was at index from, or at none if it is -1.
func (g *GIDs) Add(a verbs.GIDAction, gid verbs.GID, from int) {
	g.changed++
	switch {
	case !isDefault(&gid):
	case a == verbs.GIDRemoved:
		g.gone = append(g.gone, gid)
	default:
		if a == verbs.GIDMoved && from == defaultIndex {
			g.gone = append(g.gone, gid)
		}
		g.came = append(g.came, gid)
	}
}

// defaultIndex is where the kernel keeps a default GID, and nothing else
// (gid_table_reserve_default in drivers/infiniband/core/cache.c). A GID that moves from there is
// no default GID any more: after a change of the MAC address it is still that of the link-local
// IPv6 address, which the kernel made of the old one.
const defaultIndex = 0

// isDefault reports whether the kernel made a GID from a MAC address: the link-local prefix and
// an EUI-64 (make_default_gid in drivers/infiniband/core/roce_gid_mgmt.c).
func isDefault(g *verbs.GID) bool { return g.IsLinkLocal() && g.Raw[11] == 0xff && g.Raw[12] == 0xfe }

// replaced reports whether a network device has another default GID. One that came alone may be
// that of a new VLAN.
func (g *GIDs) replaced() bool {
	for _, a := range g.gone {
		for _, b := range g.came {
			if a.NetDev == b.NetDev && a.Raw != b.Raw {
				return true
			}
		}
	}
	return false
}

// SMLID is the LID of the port's subnet manager before and after.
type SMLID struct {
	At
	From, To int
}
