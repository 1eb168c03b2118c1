package hotplug

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/netlink"
)

// RDMA netlink (include/uapi/rdma/rdma_netlink.h).
const (
	nldevGet         = 5<<10 | 1  // RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET
	nldevGetChardev  = 5<<10 | 15 // RDMA_NLDEV_CMD_GET_CHARDEV
	nldevDevIndex    = 1          // RDMA_NLDEV_ATTR_DEV_INDEX
	nldevDevName     = 2          // RDMA_NLDEV_ATTR_DEV_NAME
	nldevChardevType = 69         // RDMA_NLDEV_ATTR_CHARDEV_TYPE
	nldevDevType     = 99         // RDMA_NLDEV_ATTR_DEV_TYPE, of sub-devices alone
	nldevParentName  = 100        // RDMA_NLDEV_ATTR_PARENT_NAME
	nldevTypeSMI     = 1          // RDMA_DEVICE_TYPE_SMI
	// indexTimeout is far longer than a dump takes.
	indexTimeout = time.Second
)

// QueryIndexes asks RDMA netlink for the indexes of all RDMA devices, by name.
// It needs no privilege. Opening its socket may load ib_core.
func QueryIndexes() (map[string]int, error) {
	c, err := netlink.Dial(unix.NETLINK_RDMA, indexTimeout)
	if err != nil {
		return nil, fmt.Errorf("request device indexes: %w", err)
	}
	defer c.Close()
	indexes, err := askIndexes(c)
	if err != nil {
		return nil, fmt.Errorf("request device indexes: %w", err)
	}
	return indexes, nil
}

func askIndexes(c *netlink.Conn) (map[string]int, error) {
	indexes := make(map[string]int)
	err := c.Ask(nldevGet, unix.NLM_F_DUMP, nil, func(body []byte) error { return parseDevice(body, indexes) })
	return indexes, err
}

// LoadNodes makes the kernel load ib_uverbs, which makes the nodes of all RDMA
// devices, and returns when it is loaded. It needs no privilege: when a process asks
// for a device's node, the kernel loads the module that makes it
// (ib_get_client_nl_info in drivers/infiniband/core/device.c). libibverbs does the
// same. Without an RDMA device LoadNodes does not load it.
func LoadNodes() error {
	c, err := netlink.Dial(unix.NETLINK_RDMA, indexTimeout)
	if err != nil {
		return fmt.Errorf("request node of an RDMA device: %w", err)
	}
	defer c.Close()
	indexes, err := askIndexes(c)
	if err != nil {
		return fmt.Errorf("request device indexes: %w", err)
	}
	for _, index := range indexes {
		// The kernel loads the module before it returns from the request.
		if err := c.Send(nldevGetChardev, 0, nodeOf(index)); err != nil {
			return fmt.Errorf("request node of an RDMA device: %w", err)
		}
		return nil
	}
	return nil
}

// nodeOf returns the attributes of a request for the uverbs node of a device.
func nodeOf(index int) []byte {
	attributes := netlink.Attribute(nil, nldevDevIndex, netlink.Word(uint32(index)))
	return netlink.Attribute(attributes, nldevChardevType, netlink.Text("uverbs"))
}

// parseDevice adds a device to indexes, unless its name or its index is missing.
func parseDevice(body []byte, indexes map[string]int) error {
	name, index := "", -1
	err := netlink.Each(body, func(kind uint16, value []byte) error {
		switch {
		case kind == nldevDevName:
			name = netlink.ParseText(value)
		case kind == nldevDevIndex && len(value) == 4:
			index = int(netlink.ParseWord(value))
		}
		return nil
	})
	if err == nil && name != "" && index >= 0 {
		indexes[name] = index
	}
	return err
}
