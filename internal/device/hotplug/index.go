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
	// indexTimeout is the longest wait for an answer. A dump takes far less.
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
	indexes, err := queryIndexes(c)
	if err != nil {
		return nil, fmt.Errorf("request device indexes: %w", err)
	}
	return indexes, nil
}

func queryIndexes(c *netlink.Conn) (map[string]int, error) {
	indexes := make(map[string]int)
	err := c.Ask(nldevGet, unix.NLM_F_DUMP, nil, func(body []byte) error { return parseDevice(body, indexes) })
	return indexes, err
}

// LoadNodes makes the kernel load ib_uverbs, which makes the nodes of all RDMA
// devices, and returns when the module is loaded. It needs no privilege: when a process
// requests a device's node, the kernel loads the module that makes it
// (ib_get_client_nl_info in drivers/infiniband/core/device.c). libibverbs does the
// same. Without an RDMA device LoadNodes loads nothing.
func LoadNodes() error {
	c, err := netlink.Dial(unix.NETLINK_RDMA, indexTimeout)
	if err != nil {
		return fmt.Errorf("request node of an RDMA device: %w", err)
	}
	defer c.Close()
	indexes, err := queryIndexes(c)
	if err != nil {
		return fmt.Errorf("request device indexes: %w", err)
	}
	for _, index := range indexes {
		// The kernel loads the module before the request returns.
		if err := c.Send(nldevGetChardev, 0, nodeRequest(index)); err != nil {
			return fmt.Errorf("request node of an RDMA device: %w", err)
		}
		return nil
	}
	return nil
}

// nodeRequest returns the attributes of a request for the uverbs node of a device.
func nodeRequest(index int) []byte {
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
