package nldev

import (
	"fmt"

	"rdma_events/internal/sys/netlink"
)

// QueryResources returns how many objects of each kind a device has now, by the kernel's names: "qp",
// "cq", "mr", "pd", "cm_id", "ctx", "srq". They are those of all processes and of the kernel. The
// kernel counts them itself, and sends no command to the device: it walks the list of each kind under
// the list's spinlock (rdma_restrack_count in drivers/infiniband/core/restrack.c). It blocks as Of does.
func QueryResources(device string) (map[string]uint64, error) {
	counts, err := resources(device)
	if err != nil {
		return nil, fmt.Errorf("ask RDMA netlink for the resources of %s: %w", device, err)
	}
	return counts, nil
}

func resources(device string) (map[string]uint64, error) {
	c, number, err := dial(device)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return count(c, number)
}

// count returns the kernel's summary of the resources of a device.
func count(c *netlink.Conn, device uint32) (map[string]uint64, error) {
	counts := map[string]uint64{}
	if err := c.Ask(resGet, 0, which(device), func(body []byte) error { return addSummary(counts, body) }); err != nil {
		return nil, fmt.Errorf("count resources: %w", err)
	}
	return counts, nil
}

// addSummary adds the counts in a summary of resources.
func addSummary(to map[string]uint64, body []byte) error {
	return addNumbers(to, body, attrSummary, attrSummaryEntry, attrSummaryName, attrSummaryCount)
}
