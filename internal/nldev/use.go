package nldev

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// The messages and attributes of include/uapi/rdma/rdma_netlink.h that this
// package uses.
const (
	nldev = 5 // RDMA_NL_NLDEV

	cmdGet      = 1  // RDMA_NLDEV_CMD_GET
	cmdResGet   = 9  // RDMA_NLDEV_CMD_RES_GET
	cmdResPDGet = 14 // RDMA_NLDEV_CMD_RES_PD_GET

	attrDevIndex     = 1
	attrDevName      = 2
	attrSummary      = 15
	attrSummaryEntry = 16
	attrSummaryName  = 17
	attrSummaryCount = 18
	attrPID          = 28
	attrKernName     = 29
	attrUseCount     = 38
	attrPD           = 46
	attrPDEntry      = 47
)

// ErrNoDevice means that the kernel has no device of that name in this network
// namespace. Of returns it wrapped.
var ErrNoDevice = errors.New("no such RDMA device")

// Use lists the users of a device.
type Use struct {
	QueuePairs int // all queue pairs, those of the kernel's own management included
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

// Of returns the users of a device. It blocks for as long as the kernel needs,
// at most some seconds.
func Of(device string) (Use, error) {
	use, err := of(device)
	if err != nil {
		return Use{}, fmt.Errorf("ask RDMA netlink who uses %s: %w", device, err)
	}
	return use, nil
}

func of(device string) (Use, error) {
	c, err := dial()
	if err != nil {
		return Use{}, err
	}
	defer c.close()
	index, err := c.index(device)
	if err != nil {
		return Use{}, err
	}
	var u Use
	which := attribute(nil, attrDevIndex, index)
	err = c.ask(cmdResGet, 0, which, func(body []byte) { u.QueuePairs = max(u.QueuePairs, queuePairs(body)) })
	if err != nil {
		return Use{}, fmt.Errorf("count resources: %w", err)
	}
	err = c.ask(cmdResPDGet, unix.NLM_F_DUMP, which, func(body []byte) { u.add(body) })
	if err != nil {
		return Use{}, fmt.Errorf("list protection domains: %w", err)
	}
	return u, nil
}

// index returns the kernel's number of a device.
func (c *conn) index(device string) (uint32, error) {
	var found uint32
	ok := false
	err := c.ask(cmdGet, unix.NLM_F_DUMP, nil, func(body []byte) {
		var name string
		var number uint32
		each(body, func(kind uint16, value []byte) {
			switch kind {
			case attrDevName:
				name = text(value)
			case attrDevIndex:
				number = word(value)
			}
		})
		if name == device {
			found, ok = number, true
		}
	})
	if err == nil && !ok {
		err = ErrNoDevice
	}
	return found, err
}

// queuePairs returns the number of queue pairs in a summary of resources.
func queuePairs(body []byte) int {
	count := 0
	each(body, func(kind uint16, summary []byte) {
		if kind != attrSummary {
			return
		}
		each(summary, func(kind uint16, entry []byte) {
			if kind != attrSummaryEntry {
				return
			}
			var name string
			var n uint64
			each(entry, func(kind uint16, value []byte) {
				switch kind {
				case attrSummaryName:
					name = text(value)
				case attrSummaryCount:
					n = long(value)
				}
			})
			if name == "qp" {
				count = int(n)
			}
		})
	})
	return count
}

// add adds the protection domains of a message.
func (u *Use) add(body []byte) {
	each(body, func(kind uint16, table []byte) {
		if kind != attrPD {
			return
		}
		each(table, func(kind uint16, entry []byte) {
			if kind == attrPDEntry {
				u.domain(entry)
			}
		})
	})
}

func (u *Use) domain(entry []byte) {
	one := Owner{Domains: 1}
	each(entry, func(kind uint16, value []byte) {
		switch kind {
		case attrPID:
			one.PID = int(word(value))
		case attrKernName:
			one.Kernel = text(value)
		case attrUseCount:
			one.Objects = long(value)
		}
	})
	for i := range u.Owners {
		if o := &u.Owners[i]; o.Kernel == one.Kernel && o.PID == one.PID {
			o.Domains++
			o.Objects += one.Objects
			return
		}
	}
	u.Owners = append(u.Owners, one)
}
