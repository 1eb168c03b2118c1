package bonds

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/netlink"
)

// link is a network device that is a bond, a leg of one, or a VLAN.
type link struct {
	name       string
	kind       string // "bond", "team", "vlan"; "" or another one for a leg
	lowerIndex int    // of a VLAN: the index of the device below it; 0: none in this network namespace
	lacp       bool   // of a bond: its mode is 802.3ad

	master        int    // of a leg: the index of its bond; 0: none
	slaveKind     string // of a leg: the kind of its bond
	carrier       bool
	inactive      bool // of a leg of a bond: neither 802.3ad nor an administrator has made it active
	monitoredDown bool // of a leg of a bond: the bond's own monitoring found it down
}

// Attributes in IFLA_INFO_DATA of a bond and in IFLA_INFO_SLAVE_DATA of its legs (include/uapi/linux/if_link.h), and their
// values (include/uapi/linux/if_bonding.h).
const (
	bondMode       = 1
	slaveState     = 1
	slaveMIIStatus = 2

	mode8023AD  = 4
	stateActive = 0
	linkUp      = 0
)

// parseLink reads the body of a message RTM_NEWLINK. ok is false if the message does not describe a whole network device, such
// as the messages of bridges about their ports.
func parseLink(body []byte) (index int, l link, ok bool) {
	if len(body) < unix.SizeofIfInfomsg || body[0] != unix.AF_UNSPEC {
		return 0, link{}, false
	}
	index = int(int32(binary.NativeEndian.Uint32(body[4:])))
	hasState, foreign := false, false
	err := netlink.Each(body[unix.SizeofIfInfomsg:], func(kind uint16, value []byte) error {
		switch kind {
		case unix.IFLA_IFNAME:
			l.name = netlink.ParseText(value)
		case unix.IFLA_LINK:
			l.lowerIndex = int(netlink.ParseWord(value))
		case unix.IFLA_LINK_NETNSID:
			foreign = true
		case unix.IFLA_MASTER:
			l.master = int(netlink.ParseWord(value))
		case unix.IFLA_OPERSTATE:
			hasState = true
		case unix.IFLA_CARRIER:
			l.carrier = u8Value(value) == 1
		case unix.IFLA_LINKINFO:
			return l.readInfo(value)
		}
		return nil
	})
	if foreign {
		l.lowerIndex = 0
	}
	return index, l, err == nil && hasState && l.name != ""
}

// readInfo reads the attribute IFLA_LINKINFO.
func (l *link) readInfo(info []byte) error {
	var data, slaveData []byte
	err := netlink.Each(info, func(kind uint16, value []byte) error {
		switch kind {
		case unix.IFLA_INFO_KIND:
			l.kind = netlink.ParseText(value)
		case unix.IFLA_INFO_DATA:
			data = value
		case unix.IFLA_INFO_SLAVE_KIND:
			l.slaveKind = netlink.ParseText(value)
		case unix.IFLA_INFO_SLAVE_DATA:
			slaveData = value
		}
		return nil
	})
	if err != nil {
		return err
	}
	if l.kind == "bond" {
		err = netlink.Each(data, func(kind uint16, value []byte) error {
			l.lacp = l.lacp || kind == bondMode && u8Value(value) == mode8023AD
			return nil
		})
	}
	if l.slaveKind != "bond" || err != nil {
		return err
	}
	return netlink.Each(slaveData, func(kind uint16, value []byte) error {
		switch kind {
		case slaveState:
			l.inactive = u8Value(value) != stateActive
		case slaveMIIStatus:
			l.monitoredDown = u8Value(value) != linkUp
		}
		return nil
	})
}

// u8Value returns the number in a value of 8 bits, or 0 if the value is empty.
func u8Value(value []byte) byte {
	if len(value) == 0 {
		return 0
	}
	return value[0]
}

// isAggregate reports whether devices of a kind combine several others.
func isAggregate(kind string) bool { return kind == "bond" || kind == "team" }

// isRelevant reports whether the table keeps the device.
func (l *link) isRelevant() bool {
	return isAggregate(l.kind) || isAggregate(l.slaveKind) || l.kind == "vlan"
}
