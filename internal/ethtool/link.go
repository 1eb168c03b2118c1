package ethtool

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Link is what the kernel knows about the link of an interface.
type Link struct {
	// Up reports whether there is a link. It is false on an interface that is
	// administratively down. HasUp is false if the driver does not say.
	Up, HasUp bool
	// ExtState is the reason why there is no link, as in "no_cable": the words of
	// enum ethtool_link_ext_state (include/uapi/linux/ethtool.h, since Linux 5.9). It is ""
	// if there is a link, if the interface is administratively down, and with most drivers.
	ExtState string
	// ExtSubstate says more about ExtState, as in "no_partner_detected"; "" if there is no more.
	ExtSubstate string
}

// LinkOf returns the state of an interface's link. It opens and closes a socket, and may be
// called concurrently. It takes the kernel's RTNL lock and may not return for long; see the
// package.
func LinkOf(name string) (Link, error) {
	l, err := linkOf(name)
	if err != nil {
		return Link{}, fmt.Errorf("ask ethtool netlink for the link of %q: %w", name, classify(err))
	}
	return l, nil
}

func linkOf(name string) (Link, error) {
	if err := checkName(name); err != nil {
		return Link{}, err
	}
	c, err := dial()
	if err != nil {
		return Link{}, err
	}
	defer c.close()
	body, err := c.ask(unix.GENL_ID_CTRL, unix.CTRL_CMD_GETFAMILY,
		attribute(nil, unix.CTRL_ATTR_FAMILY_NAME, text(unix.ETHTOOL_GENL_NAME)))
	if errors.Is(err, unix.ENOENT) {
		return Link{}, fmt.Errorf("%w: the kernel has no ethtool netlink: %w", ErrUnsupported, err)
	}
	if err != nil {
		return Link{}, fmt.Errorf("find the family: %w", err)
	}
	family, err := parseFamily(body)
	if err != nil {
		return Link{}, fmt.Errorf("find the family: %w", err)
	}
	header := attribute(nil, unix.ETHTOOL_A_HEADER_DEV_NAME, text(name))
	body, err = c.ask(family, unix.ETHTOOL_MSG_LINKSTATE_GET,
		attribute(nil, unix.ETHTOOL_A_LINKSTATE_HEADER|unix.NLA_F_NESTED, header))
	if err != nil {
		return Link{}, err
	}
	return parseLink(body)
}

// parseFamily returns the number of a family from the answer to CTRL_CMD_GETFAMILY.
func parseFamily(body []byte) (uint16, error) {
	var family uint16
	err := parse(body, unix.CTRL_CMD_NEWFAMILY, func(kind uint16, value []byte) {
		if kind == unix.CTRL_ATTR_FAMILY_ID && len(value) >= 2 {
			family = binary.NativeEndian.Uint16(value)
		}
	})
	if err == nil && family < unix.NLMSG_MIN_TYPE {
		err = fmt.Errorf("read answer: %d is no number of a family", family)
	}
	return family, err
}

// parseLink returns what the answer to LINKSTATE_GET says.
func parseLink(body []byte) (Link, error) {
	var l Link
	var state, substate uint8
	var has, hasMore bool
	err := parse(body, unix.ETHTOOL_MSG_LINKSTATE_GET_REPLY, func(kind uint16, value []byte) {
		if len(value) == 0 {
			return
		}
		switch kind {
		case unix.ETHTOOL_A_LINKSTATE_LINK:
			l.Up, l.HasUp = value[0] != 0, true
		case unix.ETHTOOL_A_LINKSTATE_EXT_STATE:
			state, has = value[0], true
		case unix.ETHTOOL_A_LINKSTATE_EXT_SUBSTATE:
			substate, hasMore = value[0], true
		}
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

// parse checks the generic header of an answer and calls f for its attributes.
func parse(body []byte, command uint8, f func(kind uint16, value []byte)) error {
	if len(body) < genericHeader || body[0] != command {
		return fmt.Errorf("read answer: no answer to the request in %d bytes", len(body))
	}
	return each(body[genericHeader:], f)
}
