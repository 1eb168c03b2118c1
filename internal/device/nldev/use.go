package nldev

import (
	"fmt"

	"golang.org/x/sys/unix"

	"rdma_events/internal/sys/netlink"
)

// Use lists the users of a device.
type Use struct {
	QueuePairs int // all queue pairs, including the kernel's own for management
	Owners     []Owner
}

// Owner is a process or kernel module with protection domains on a device.
// Neither Kernel nor PID is set for a process that is not visible to this one,
// as from a container.
type Owner struct {
	Kernel  string // module, as in "ib_core", "nvme_rdma"; "" for a process
	PID     int
	Domains int
	Objects uint64 // queue pairs, memory regions and other objects in its domains
}

// QueryUse returns the users of a device. It blocks for as long as the kernel needs,
// at most some seconds.
func QueryUse(device string) (Use, error) {
	use, err := queryUse(device)
	if err != nil {
		return Use{}, fmt.Errorf("ask RDMA netlink who uses %s: %w", device, err)
	}
	return use, nil
}

func queryUse(device string) (Use, error) {
	c, number, err := dialDevice(device)
	if err != nil {
		return Use{}, err
	}
	defer c.Close()
	var u Use
	counts, err := countObjects(c, number)
	if err != nil {
		return Use{}, err
	}
	u.QueuePairs = int(counts["qp"])
	if err := c.Ask(resPDGet, unix.NLM_F_DUMP, deviceAttribute(number), u.addMessage); err != nil {
		return Use{}, fmt.Errorf("list protection domains: %w", err)
	}
	return u, nil
}

// addMessage adds the protection domains of a message.
func (u *Use) addMessage(body []byte) error { return eachEntry(body, attrPD, attrPDEntry, u.addDomain) }

// addDomain adds a protection domain.
func (u *Use) addDomain(fields []byte) error {
	one := Owner{Domains: 1}
	err := netlink.Each(fields, func(kind uint16, value []byte) error {
		switch kind {
		case attrPID:
			one.PID = int(netlink.ParseWord(value))
		case attrKernName:
			one.Kernel = netlink.ParseText(value)
		case attrUseCount:
			one.Objects = parseNumber(value)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range u.Owners {
		if o := &u.Owners[i]; o.Kernel == one.Kernel && o.PID == one.PID {
			o.Domains++
			o.Objects += one.Objects
			return nil
		}
	}
	u.Owners = append(u.Owners, one)
	return nil
}
