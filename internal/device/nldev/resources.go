package nldev

import (
	"fmt"

	"rdma_events/internal/sys/netlink"
)

// QueryResources returns how many objects of each kind a device has now, by the kernel's names: "qp",
// "cq", "mr", "pd", "cm_id", "ctx", "srq". It counts the objects of all processes and of the kernel. The
// kernel sends no command to the device: it walks the list of each kind under the list's spinlock
// (rdma_restrack_count in drivers/infiniband/core/restrack.c). QueryResources blocks as QueryUse does.
func QueryResources(device string) (map[string]uint64, error) {
	counts, err := queryResources(device)
	if err != nil {
		return nil, fmt.Errorf("ask RDMA netlink for the resources of %s: %w", device, err)
	}
	return counts, nil
}

func queryResources(device string) (map[string]uint64, error) {
	c, number, err := dialDevice(device)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return countObjects(c, number)
}

// countObjects returns the kernel's summary of the resources of a device.
func countObjects(c *netlink.Conn, device uint32) (map[string]uint64, error) {
	counts := map[string]uint64{}
	if err := c.Ask(resGet, 0, deviceAttribute(device), func(body []byte) error { return addSummary(counts, body) }); err != nil {
		return nil, fmt.Errorf("count resources: %w", err)
	}
	return counts, nil
}

// addSummary adds the counts in a summary of resources.
func addSummary(to map[string]uint64, body []byte) error {
	return addNumbers(to, body, attrSummary, attrSummaryEntry, attrSummaryName, attrSummaryCount)
}
