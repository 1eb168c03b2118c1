package nldev

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/netlink"
)

// answerLimit is the longest wait for one part of an answer.
const answerLimit = 5 * time.Second

// ErrNoDevice means that this network namespace has no device of that name. Every
// function that takes a device returns it wrapped.
var ErrNoDevice = errors.New("no such RDMA device")

// dialDevice opens a connection, and uses it to find the kernel's number of a device. The caller closes the connection.
func dialDevice(device string) (c *netlink.Conn, number uint32, err error) {
	c, err = netlink.Dial(unix.NETLINK_RDMA, answerLimit)
	if err != nil {
		return nil, 0, err
	}
	number, err = findDevice(c, device)
	if err != nil {
		c.Close()
		return nil, 0, err
	}
	return c, number, nil
}

// deviceAttribute returns the attribute of a request that names a device.
func deviceAttribute(number uint32) []byte {
	return netlink.Attribute(nil, attrDevIndex, netlink.Word(number))
}

// findDevice returns the kernel's number of a device.
func findDevice(c *netlink.Conn, device string) (uint32, error) {
	var found uint32
	ok := false
	err := c.Ask(get, unix.NLM_F_DUMP, nil, func(body []byte) error {
		var name string
		var number uint32
		err := netlink.Each(body, func(kind uint16, value []byte) error {
			switch kind {
			case attrDevName:
				name = netlink.ParseText(value)
			case attrDevIndex:
				number = netlink.ParseWord(value)
			}
			return nil
		})
		if name == device {
			found, ok = number, true
		}
		return err
	})
	if err == nil && !ok {
		err = ErrNoDevice
	}
	return found, err
}
