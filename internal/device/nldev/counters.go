package nldev

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/netlink"
)

// ErrNoCounters means that the kernel has no hw_counters for a port, that its driver could
// not read them (the errno is the same, EINVAL: stat_get_doit_default_counter in
// drivers/infiniband/core/nldev.c), or that they do not fit into one message.
var ErrNoCounters = errors.New("no counters by netlink")

// QueryCounters returns the hw_counters of a port (1-based) by name. The kernel asks the driver once
// for all of them. With mlx5, reading the files in sysfs asks the device for each file, since the
// kernel keeps an answer only for the first counter (mlx5_ib_get_hw_stats, Linux 6.1 to 6.12).
// QueryCounters blocks for as long as the device does not answer.
func QueryCounters(device string, port int) (map[string]uint64, error) {
	counters, err := queryCounters(device, port)
	if err != nil {
		return nil, fmt.Errorf("ask RDMA netlink for the counters of %s port %d: %w", device, port, err)
	}
	return counters, nil
}

func queryCounters(device string, port int) (map[string]uint64, error) {
	c, number, err := dialDevice(device)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	request := netlink.Attribute(deviceAttribute(number), attrPortIndex, netlink.Word(uint32(port)))
	counters := map[string]uint64{}
	err = c.Ask(statGet, 0, request, func(body []byte) error { return addCounters(counters, body) })
	switch {
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EMSGSIZE), errors.Is(err, unix.EOPNOTSUPP), err == nil && len(counters) == 0:
		err = errors.Join(ErrNoCounters, err)
	}
	return counters, err
}

func addCounters(to map[string]uint64, body []byte) error {
	return addNumbers(to, body, attrCounters, attrCounter, attrCounterName, attrCounterValue)
}
