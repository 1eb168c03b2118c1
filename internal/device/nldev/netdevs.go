package nldev

import (
	"fmt"

	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/netlink"
)

// QueryNetDevs returns the names of the network devices of a device's ports, by port. Ports without a network device in this network
// namespace are absent. Unlike the GID table, the kernel's answer has the network devices of ports without RoCE, too. For each port the
// kernel asks the driver for the port's state (fill_port_info in drivers/infiniband/core/nldev.c), so that QueryNetDevs blocks for as long
// as the device does not answer.
func QueryNetDevs(device string) (map[int]string, error) {
	names, err := queryNetDevs(device)
	if err != nil {
		return nil, fmt.Errorf("ask RDMA netlink for the network devices of %s: %w", device, err)
	}
	return names, nil
}

func queryNetDevs(device string) (map[int]string, error) {
	c, number, err := dialDevice(device)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	names := map[int]string{}
	err = c.Ask(portGet, unix.NLM_F_DUMP, deviceAttribute(number), func(body []byte) error { return addNetDev(names, body) })
	return names, err
}

// addNetDev adds the network device of the port that a message describes.
func addNetDev(to map[int]string, body []byte) error {
	port, name := 0, ""
	err := netlink.Each(body, func(kind uint16, value []byte) error {
		switch kind {
		case attrPortIndex:
			port = int(netlink.ParseWord(value))
		case attrNetDevName:
			name = netlink.ParseText(value)
		}
		return nil
	})
	if err == nil && name != "" {
		to[port] = name
	}
	return err
}
