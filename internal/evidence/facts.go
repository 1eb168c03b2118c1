package evidence

import (
	"time"

	"rdma_events/internal/verbs"
)

// Facts is what is known about a port at a trigger: an event, a change of its state, or
// another reason to ask. The zero value of each field means that it is not known.
type Facts struct {
	// LinkLayer decides which facts concern the port: the network device of an InfiniBand
	// port (IPoIB) can be down while the port is active, and only InfiniBand has a subnet
	// manager.
	LinkLayer verbs.LinkLayer
	// Before and After are the port's states before the trigger and after it. They are equal
	// if the trigger did not concern the state.
	Before, After verbs.PortState
	NetDev        NetDev
	ExtState      ExtState
	Removed       At // the kernel's uevent about the removal of the device
	Fatal         At // the last device_fatal
	Stuck         At // the last moment at which a command of the device was known to be stuck
	GIDs          GIDs
	SMLID         SMLID
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
	Changed int  // GIDs that came, went or moved
	Default bool // the port's default GID, which the kernel makes from the MAC address, is one of them
}

// SMLID is the LID of the port's subnet manager before and after.
type SMLID struct {
	At
	From, To int
}
