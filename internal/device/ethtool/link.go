package ethtool

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/netlink"
)

// Link is the state of an interface's link.
type Link struct {
	// Up reports whether there is a link. It is false on an interface that is
	// administratively down. HasUp is false if the driver does not report it.
	Up, HasUp bool
	// ExtState is the reason why there is no link, as in "no_cable": a name of
	// enum ethtool_link_ext_state (include/uapi/linux/ethtool.h, since Linux 5.9). It is ""
	// if there is a link, if the interface is administratively down, and with most drivers.
	ExtState string
	// ExtSubstate gives more detail about ExtState, as in "no_partner_detected"; "" if there is none.
	ExtSubstate string
}

// QueryLink returns the state of an interface's link. It opens and closes a socket, and may be called concurrently. It takes the
// kernel's RTNL lock and may block for long; see the package.
func QueryLink(name string) (Link, error) {
	l, err := queryLink(name)
	if err != nil {
		return Link{}, fmt.Errorf("ask ethtool netlink for the link of %q: %w", name, wrapErrno(err))
	}
	return l, nil
}

func queryLink(name string) (Link, error) {
	header := netlink.Attribute(nil, unix.ETHTOOL_A_HEADER_DEV_NAME, netlink.Text(name))
	body, err := requestInterface(name, unix.ETHTOOL_MSG_LINKSTATE_GET, netlink.Attribute(nil, unix.ETHTOOL_A_LINKSTATE_HEADER|unix.NLA_F_NESTED, header))
	if err != nil {
		return Link{}, err
	}
	return parseLink(body)
}

// requestInterface sends a request of ethtool netlink about an interface, and returns the body of the answer.
func requestInterface(name string, command uint8, attributes []byte) ([]byte, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	c, err := netlink.Dial(unix.NETLINK_GENERIC, answerLimit)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	body, err := sendRequest(c, unix.GENL_ID_CTRL, unix.CTRL_CMD_GETFAMILY,
		netlink.Attribute(nil, unix.CTRL_ATTR_FAMILY_NAME, netlink.Text(unix.ETHTOOL_GENL_NAME)))
	if errors.Is(err, unix.ENOENT) {
		return nil, fmt.Errorf("%w: the kernel has no ethtool netlink: %w", ErrUnsupported, err)
	}
	if err != nil {
		return nil, fmt.Errorf("find the family: %w", err)
	}
	family, err := parseFamily(body)
	if err != nil {
		return nil, fmt.Errorf("find the family: %w", err)
	}
	return sendRequest(c, family, command, attributes)
}

// parseFamily returns the number of a family from the answer to CTRL_CMD_GETFAMILY.
func parseFamily(body []byte) (uint16, error) {
	var family uint16
	err := parseAnswer(body, unix.CTRL_CMD_NEWFAMILY, func(kind uint16, value []byte) error {
		if kind == unix.CTRL_ATTR_FAMILY_ID && len(value) >= 2 {
			family = binary.NativeEndian.Uint16(value)
		}
		return nil
	})
	if err == nil && family < unix.NLMSG_MIN_TYPE {
		err = fmt.Errorf("read answer: %d is no number of a family", family)
	}
	return family, err
}

// parseLink returns the state in the answer to LINKSTATE_GET.
func parseLink(body []byte) (Link, error) {
	var l Link
	var state, substate uint8
	var has, hasMore bool
	err := parseAnswer(body, unix.ETHTOOL_MSG_LINKSTATE_GET_REPLY, func(kind uint16, value []byte) error {
		if len(value) == 0 {
			return nil
		}
		switch kind {
		case unix.ETHTOOL_A_LINKSTATE_LINK:
			l.Up, l.HasUp = value[0] != 0, true
		case unix.ETHTOOL_A_LINKSTATE_EXT_STATE:
			state, has = value[0], true
		case unix.ETHTOOL_A_LINKSTATE_EXT_SUBSTATE:
			substate, hasMore = value[0], true
		}
		return nil
	})
	if err != nil {
		return Link{}, err
	}
	if has {
		l.ExtState = extState(state)
	}
	if has && hasMore {
		l.ExtSubstate = extSubstate(state, substate)
	}
	return l, nil
}
